"""How long a fit and a prediction take beside a process that keeps two threads busy, compared with alone.

On two cores twice as long is fair: the other one gets its share. Many times as long is waiting: for a second thread
that was woken for an array of a few hundred numbers, and whose core is taken.

    python benchmarks/beside_a_busy_process.py [--quick]
"""

from __future__ import annotations

import functools
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from record import options, table, write
from timing import medians

import cagp

BUSY = "while True: pass"


@contextmanager
def busy(threads: int = 2) -> Iterator[None]:
    """Something else that keeps so many threads busy; each is a process, because of Python's lock."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(threads)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


def rows(n: int, rounds: int) -> list[list[str]]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.standard_normal(n)
    likelihood = "exact" if n <= 2000 else "nearest-neighbours"
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.01)
    fit = functools.partial(
        prior.fit, X, y, likelihood=likelihood, n_restarts=0, max_iterations=3, standard_errors=False, progress=False
    )
    model = prior.condition(X, y, "cholesky" if n <= 2000 else cagp.NearestNeighbours(100))
    calls: dict[str, Callable[[], object]] = {
        "fit of one kernel": fit,
        "predict one point": functools.partial(model.predict, X[:1], progress=False),
        "predict 1,000 points": functools.partial(model.predict, rng.random((1000, 2)), progress=False),
    }
    alone = medians(calls, rounds)
    with busy():
        beside = medians(calls, rounds)
    return [
        [f"{n:,}", name, f"{1e3 * alone[name]:.1f}", f"{1e3 * beside[name]:.1f}", f"{beside[name] / alone[name]:.1f}"]
        for name in calls
    ]


def main() -> None:
    warnings.simplefilter("ignore", cagp.hyperparameters.FitWarning)  # three iterations are not meant to converge
    given = options(__doc__).parse_args()
    sizes, rounds = ((60, 600), 1) if given.quick else ((200, 2_000, 20_000), 3)
    columns = ["observations", "work", "ms alone", "ms beside two busy threads", "ratio"]
    found = [row for n in sizes for row in rows(n, rounds)]
    result = table("Beside a busy process", columns, found, "Medians; about 2 is fair on two cores.")
    write(given.out, "beside_a_busy_process", "Beside a busy process", [result], given.quick)


if __name__ == "__main__":
    main()
