"""``CAGP_DATA=... python benchmarks/varying.py``: what patterns of amplitude and noise do for held-out scores.

The data sets of ``front_door.py``, fitted by ``cagp.fit`` with ``varying=False`` and with the default, before any
recalibration and after it: average negative log density and CRPS of held-out observations (at most 5,000), and the time
of the fit. ``--save FOLDER`` writes the data sets as arrays; ``--cases FOLDER --device cuda`` runs from these, on a
machine that has neither the data nor readers for them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cagp

SETS = "concrete-0,bike-0,protein-0,era5 scattered-0,era5 scattered-1,era5 gaps-0,era5 gaps-1"
"""Names of data sets in ``front_door.py``, and the seed of the split."""

_MOST = 5000
_PROBABILITIES = (np.arange(99) + 0.5) / 99


def arrays(name: str, rows: int) -> dict[str, Any]:
    """A data set as arrays X, y, X_test, y_test, and whether it is on the globe and in gaps."""
    from front_door import CASES

    which, seed = name.rsplit("-", 1)
    rng = np.random.default_rng(int(seed))
    X, y, X_test, y_test, options = CASES[which](rng, rows)
    some = rng.permutation(len(y_test))[:_MOST]
    kinds = {"globe": "globe" in options, "gaps": options.get("like") is not None}
    return {"X": X, "y": y, "X_test": X_test[some], "y_test": y_test[some], **kinds}


def scores(case: Any, varying: bool | str, bars: bool | str, device: str) -> tuple[str, str]:
    """Scores of one fit in words, and its table of candidates."""
    started = time.perf_counter()
    X_test, truth = case["X_test"], case["y_test"]
    model = cagp.fit(
        case["X"],
        case["y"],
        like=X_test if case["gaps"] else None,
        globe=(0, 1) if case["globe"] else None,
        varying=varying,
        recalibrate=bars,
        device=device,
        progress=False,
    )
    seconds = time.perf_counter() - started
    new = model.predict(X_test, progress=False).observed()
    quantiles = new.quantile(_PROBABILITIES)
    crps = 2 * np.mean(((truth[:, None] <= quantiles) - _PROBABILITIES) * (quantiles - truth[:, None]))
    nll = -np.mean(new.log_density(truth))
    held = []
    for level in (0.5, 0.95):
        lower, upper = new.interval(level)
        held.append(100 * np.mean((lower <= truth) & (truth <= upper)))
    return f"{nll:8.3f} {crps:8.4f} {held[0]:6.1f} {held[1]:6.1f} {seconds:8.1f}", model.story.split("\nChosen")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--rows", type=int, default=20_000, help="at most so many training rows")
    parser.add_argument("--save", type=Path, help="write the data sets there, and nothing else")
    parser.add_argument("--cases", type=Path, help="read the data sets from there")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cagp.hyperparameters.FitWarning)
    names = asked.sets.split(",")
    if asked.save:
        asked.save.mkdir(parents=True, exist_ok=True)
        for name in names:
            np.savez_compressed(asked.save / f"{name}.npz", **arrays(name, asked.rows))
        return
    print(f"{'data':17} {'error bars':12} {'patterns':8} {'nll':>8} {'CRPS':>8} {'50%':>6} {'95%':>6} {'fit [s]':>8}")
    for name in names:
        case = np.load(asked.cases / f"{name}.npz") if asked.cases else arrays(name, asked.rows)
        for bars in (False, "auto"):
            for varying in (False, "auto"):
                words, tried = scores(case, varying, bars, asked.device)
                kind = "judged" if bars else "of the prior"
                print(f"{name:17} {kind:12} {'tried' if varying else 'no':8} {words}", flush=True)
        print(tried, flush=True)


if __name__ == "__main__":
    main()
