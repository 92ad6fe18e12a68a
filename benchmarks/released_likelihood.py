"""One evaluation after another of a likelihood of an older cagp, timed, for ``likelihood.py``: PYTHONPATH says which.

    python released_likelihood.py problem.npz

For each line on standard input, the seconds that one evaluation of value and gradient took.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import cagp


def main() -> None:
    # names as they were in 0.1, which is why nothing here is checked
    from cagp.hyperparameters.parameters import Space  # type: ignore[import-not-found]

    from cagp.hyperparameters.fitting import generators, with_neighbours  # type: ignore[attr-defined]
    from cagp.hyperparameters.likelihood import ExactLikelihood  # type: ignore[attr-defined]
    from cagp.hyperparameters.observations import observations

    problem = np.load(sys.argv[1])
    X, y, k = problem["X"], problem["y"], int(problem["k"])
    kernel = cagp.Matern12 if k else cagp.Matern32
    prior = cagp.Prior(kernel(tuple(problem["lengthscale"])), noise_variance=0.05)
    space, data = Space.of(prior), observations(prior, X, y, None)
    if k:
        data = data.rows(generators(0)[1].permutation(len(y)))
        likelihood = with_neighbours(space, data, space.start, k, 2**32)
    else:
        likelihood = ExactLikelihood(space, data, 2**33)
    likelihood(space.start)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        likelihood(space.start)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
