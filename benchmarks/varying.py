"""``CAGP_DATA=... python benchmarks/varying.py``: what patterns of amplitude and noise do for held-out scores.

The data sets of ``front_door.py``, fitted by ``cagp.fit`` with ``varying=False`` and with the default, before any
recalibration and after it: average negative log density and CRPS of held-out observations, and the time of the fit.
"""

from __future__ import annotations

import argparse

import numpy as np
from front_door import CASES, scored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="concrete,bike,protein,era5 scattered,era5 gaps,heaton")
    parser.add_argument("--rows", type=int, default=20_000, help="at most so many training rows")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{'data':15} {'error bars':12} {'varying':8} {'nll':>8} {'CRPS':>8} {'50%':>6} {'95%':>6} {'fit [s]':>8}")
    for name in asked.sets.split(","):
        case = CASES[name](np.random.default_rng(asked.seed), asked.rows)
        for bars in (False, "auto"):
            for varying in (False, "auto"):
                found, seconds, model = scored(case, varying=varying, recalibrate=bars)
                half, most = 100 * found.coverage([0.5, 0.95])
                words = f"{found.nll:8.3f} {found.crps:8.4f} {half:6.1f} {most:6.1f} {seconds:8.1f}"
                kind = "judged" if bars else "of the prior"
                print(f"{name:15} {kind:12} {'tried' if varying else 'no':8} {words}", flush=True)
        print(model.story.split("\nChosen")[0], flush=True)


if __name__ == "__main__":
    main()
