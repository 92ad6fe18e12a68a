"""Write the data sets as npz files, for GPU machines that have only torch, numpy and scipy.

CAGP_DATA=... python benchmarks/gpu/export.py OUT_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from cagp import datasets


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    era5 = datasets.era5()
    np.savez_compressed(folder / "era5.npz", X=era5.X.astype(np.float32), y=era5.y)
    for name, load in (("kin40k", datasets.kin40k), ("protein", datasets.protein)):
        data = load()
        X, y = data.X, data.y
        np.savez_compressed(folder / f"{name}.npz", X=(X - X.mean(0)) / X.std(0), y=(y - y.mean()) / y.std())


if __name__ == "__main__":
    main()
