"""Make ``src/cagp/reports/coastlines.npy`` from land-110m.json, which ``npm pack world-atlas`` brings.

python docs/make_coastlines.py land-110m.json

The data are Natural Earth's land at 1:110m, which is in the public domain: longitude and latitude in hundredths of a
degree, int16 of shape (n, 2), with a row of −32768 after each line. Edges along the date line close polygons and are no
coasts: they are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

OUT = Path(__file__).parents[1] / "src" / "cagp" / "reports" / "coastlines.npy"
_END = np.full((1, 2), -32768, dtype=np.int16)


def main() -> None:
    land = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    scale, first = (np.array(land["transform"][name]) for name in ("scale", "translate"))
    rows = []
    for arc in land["arcs"]:  # each is differences of integers
        line = np.rint(100 * (np.cumsum(arc, axis=0) * scale + first)).astype(np.int32)
        across = np.abs(np.diff(line[:, 0])) > 18000
        edge = np.abs(line[:, 0]) >= 17999
        breaks = np.flatnonzero(across | (edge[1:] & edge[:-1])) + 1
        rows += [part for piece in np.split(line, breaks) if len(piece) > 1 for part in (piece, _END)]
    np.save(OUT, np.concatenate(rows).astype(np.int16))


if __name__ == "__main__":
    main()
