"""Growing data: what ``model.with_more`` costs beside a new model of all observations.

The model before stays as it is, so the factor of Cholesky is copied: with_more cannot be faster than that copy. Nearest
neighbours need a search tree of all points, and other solvers do their work when they predict: for them both cost the
same, and the table says how little that is.

    python benchmarks/growing.py [--quick]
"""

from __future__ import annotations

from collections.abc import Callable

from problem import PRIOR, data
from record import Table, options, table, write
from timing import medians

import cagp


def extended(d: int, m: int, rounds: int) -> list[str]:
    """The extended factor against a new one, and against the copy that it needs."""
    X, y, _ = data(d + m, 1)
    old = PRIOR.condition(X[:d], y[:d], "cholesky")
    factor = old.prepared.factor
    assert factor is not None
    contenders: dict[str, Callable[[], object]] = {
        "new": lambda: PRIOR.condition(X, y, "cholesky"),
        "more": lambda: old.with_more(X[d:], y[d:]),
        "copy": factor.clone,
    }
    new, more, copy = medians(contenders, rounds).values()
    return [f"{m:,}", f"{new:.3g}", f"{more:.3g}", f"{more / new:.3f}", f"{copy / new:.3f}"]


def cholesky(d: int, batches: list[int], rounds: int) -> Table:
    return table(
        f"Cholesky, d = {d:,}: a model of d + m observations, float64",
        ["m", "new model, s", "with_more, s", "ratio", "copy of the factor / new model"],
        [extended(d, m, rounds) for m in batches],
        f"Medians of {rounds} rounds, in which all take turns. The copy is the floor of with_more.",
    )


def prepared_anew(solver: cagp.Solver, d: int, m: int, tests: int, rounds: int) -> list[str]:
    """A solver until it is ready to predict, and how long the prediction takes then."""
    X, y, X_test = data(d + m, tests)

    def ready(model: cagp.Model) -> cagp.Model:
        if isinstance(solver, cagp.NearestNeighbours):  # the search tree is made for the first question
            model.predict(X_test[:1], progress=False)
        return model

    old, whole = (PRIOR.condition(X[:n], y[:n], solver) for n in (d, d + m))
    contenders: dict[str, Callable[[], object]] = {
        "new": lambda: ready(PRIOR.condition(X, y, solver)),
        "more": lambda: ready(old.with_more(X[d:], y[d:])),
        "predict": lambda: whole.predict(X_test, progress=False),
    }
    new, more, predict = medians(contenders, rounds).values()
    return [repr(solver), f"{d:,} + {m:,}", f"{new:.3g}", f"{more:.3g}", f"{more / new:.2f}", f"{predict:.3g}"]


def others(d: int, many: int, m: int, tests: int, rounds: int) -> Table:
    sizes = {
        cagp.NearestNeighbours(100): many,
        cagp.GaussSeidel(10): d,
        cagp.CalibratedCG(10, cagp.Nystrom(d // 10)): d,
    }
    return table(
        "Solvers that are prepared anew",
        ["solver", "observations", "new model, s", "with_more, s", "ratio", f"prediction of {tests:,} points, s"],
        [prepared_anew(solver, size, m, tests, rounds) for solver, size in sizes.items()],
        f"For nearest neighbours with the search tree. Medians of {rounds} rounds, in which all take turns.",
    )


def main() -> None:
    arguments = options(__doc__).parse_args()
    if arguments.quick:
        tables = [cholesky(200, [10], 1), others(200, 1000, 10, 50, 1)]
    else:
        tables = [cholesky(6000, [1, 100, 1000], 5), others(6000, 10**6, 1000, 1000, 5)]
    write(arguments.out, "growing", "Growing data", tables, arguments.quick)


if __name__ == "__main__":
    main()
