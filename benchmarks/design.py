"""``python benchmarks/design.py``: how long it takes to choose where to measure next, and what near candidates miss.

10⁴ candidates for a region of 10³ places, 20 choices, with 10⁵ observations of a Matérn 3/2 field, spread evenly or
with a gap, by 50 nearest neighbours, by those that ``cagp.fit`` takes by default, and by what ``Auto`` picks: seconds,
and processor seconds, of the second call. Then,
with 2·10⁴ observations, where all covariances can be computed: how much of the gain choices have that look at near
candidates only.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import cagp
import cagp.design


def points(d: int, gap: bool, seed: int) -> np.ndarray:
    """Observations (d, 2) in the unit square, without a disc in the middle where there is a ``gap``."""
    X = np.random.default_rng(seed).random((2 * d, 2))
    return X[np.linalg.norm(X - 0.5, axis=1) > 0.2][:d] if gap else X[:d]


def conditioned(d: int, gap: bool, solver: cagp.Solver | str, noise: float) -> cagp.Model:
    """A model; which values were observed does not matter."""
    prior = cagp.Prior(cagp.Matern32(0.1), noise_variance=noise)
    return prior.condition(points(d, gap, 0), np.zeros(d), solver)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether it runs, not how fast")
    size = 100 if parser.parse_args().quick else 1
    rng = np.random.default_rng(1)
    # with a gap Auto takes 800 neighbours, whose predictions alone take minutes
    fifty, own = cagp.NearestNeighbours(50), cagp.NearestNeighbours()
    runs: list[tuple[bool, cagp.Solver | str]] = [(gap, each) for each in (fifty, own) for gap in (False, True)]
    for gap, solver in [*runs, (False, "auto")]:
        model = conditioned(100_000 // size, gap, solver, 0.05)
        for _ in range(2):  # the first compiles, and sets up neighbours
            candidates, region = rng.random((10_000 // size, 2)), rng.random((max(30, 1000 // size), 2))
            began, worked = time.perf_counter(), time.process_time()
            found = model.where_next(candidates, 20, region=region)
            took = time.perf_counter() - began, time.process_time() - worked
        print(f"{solver!r}, gap {gap}: {took[0]:.1f} s, {took[1]:.1f} s of processors; {found}", flush=True)
    usual = cagp.design._VALUES
    for gap in (False, True):
        for noise in (0.05, 0.001):
            model = conditioned(20_000 // size, gap, cagp.NearestNeighbours(50), noise)
            candidates, region = rng.random((max(30, 2000 // size), 2)), rng.random((max(30, 400 // size), 2))
            gained = []
            for cagp.design._VALUES in (np.inf, usual / 20):  # as large a share as of the sizes above
                found = model.where_next(candidates, 20, region=region)
                gained.append(found.average_variance[0] - found.average_variance[-1])
            cagp.design._VALUES = usual
            share, said = gained[1] / gained[0], str(found.status).rpartition(". ")[2]
            print(f"gap {gap}, noise {noise:g}: {share:.4f} of the gain. {said}", flush=True)


if __name__ == "__main__":
    main()
