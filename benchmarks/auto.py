"""Auto against every solver that it could have picked: whole times, and the excess of each.

A time is that of conditioning and predicting, Auto's choosing included; what it chooses by are counts.
The excess is mean(variance − exact) / mean(exact) at some of the test points, where exact is the smallest variance that
any solver has found: that of Cholesky, or of 1,600 neighbours at the least. Solvers that would take several times the
operations of what Auto picked are left out, and so are those that need more than a minute.

    python benchmarks/auto.py [--quick]
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

import numpy as np
from record import options, table, write
from timing import medians

import cagp
from cagp.solvers.candidates import LADDER, Costs

_JUDGED = 32
_MOST = 2e12
_HOPELESS, _LITTLE = 3.0, 3e10
_REPEATED_UP_TO = 2.0
_EXCESS = 0.01


@dataclass(frozen=True)
class Problem:
    """d training and T test points in p dimensions; ``lengthscale`` in units of √p, ``grid`` of test points."""

    d: int
    p: int
    T: int
    lengthscale: float = 0.2
    noise: float = 0.01
    grid: bool = False

    @property
    def X(self) -> np.ndarray:
        return np.random.default_rng(0).random((self.d, self.p))

    @property
    def X_test(self) -> np.ndarray:
        if not self.grid:
            return np.random.default_rng(1).random((self.T, self.p))
        side = round(self.T ** (1 / self.p))
        axes = np.meshgrid(*[np.linspace(0, 1, side)] * self.p)
        return np.stack(axes, axis=-1).reshape(-1, self.p)

    @property
    def prior(self) -> cagp.Prior:
        return cagp.Prior(cagp.Matern32(self.lengthscale * self.p**0.5), noise_variance=self.noise)


PROBLEMS = [
    Problem(500, 1, 1),
    Problem(500, 8, 1_000),
    Problem(2_000, 2, 10_000),
    Problem(4_000, 3, 1),
    Problem(4_000, 3, 20_000),
    Problem(5_000, 26, 200),
    Problem(8_000, 8, 1_000),
    Problem(10_000, 8, 10),
    Problem(10_000, 8, 1_000, lengthscale=0.5, noise=1.0),
    Problem(13_500, 26, 1_500),
    Problem(20_000, 2, 100),
    Problem(20_000, 2, 90_000, lengthscale=0.1, grid=True),
    Problem(100_000, 2, 1),
    Problem(100_000, 3, 10_000, lengthscale=0.05, noise=0.1),
    Problem(1_000_000, 2, 1, lengthscale=0.02),
    Problem(1_000_000, 2, 100_000, lengthscale=0.02),
]
QUICK = [Problem(300, 1, 1), Problem(2_200, 2, 20), Problem(2_200, 4, 100)]


def seconds_and_variance(problem: Problem, solver: cagp.Solver) -> tuple[float, np.ndarray, str]:
    X, X_test = problem.X, problem.X_test
    start = time.perf_counter()
    model = problem.prior.condition(X, X[:, 0], solver)
    post = model.predict(X_test, progress=False)
    seconds = time.perf_counter() - start
    return seconds, post.variance, repr(model.prepared.picked or solver)


def rows(problem: Problem) -> tuple[list[str], str]:
    """The row of a problem, and all that was measured of it."""
    X, X_test = problem.X, problem.X_test
    seconds, variance, picked = seconds_and_variance(problem, cagp.Auto())
    gram = problem.prior.condition(X, X[:, 0], cagp.GaussSeidel(0, order="natural")).gram
    costs, T = Costs(gram), len(X_test)
    found = {"Auto": (seconds, variance)}
    solvers = [each.solver for each in costs.others(T)]
    solvers += [cagp.NearestNeighbours(k) for k in LADDER if k < problem.d]
    counted = next((costs.candidate(each, T).operations for each in solvers if repr(each) == picked), 0.0)
    calls = {"Auto": functools.partial(seconds_and_variance, problem, cagp.Auto())}
    for solver in solvers:
        expected = costs.candidate(solver, T).operations
        if expected > _MOST or expected > max(_HOPELESS * counted, _LITTLE):
            continue
        found[repr(solver)] = seconds_and_variance(problem, solver)[:2]
        calls[repr(solver)] = functools.partial(seconds_and_variance, problem, solver)
    times = {name: each[0] for name, each in found.items()}
    repeated = {name: call for name, call in calls.items() if times[name] < _REPEATED_UP_TO}
    if "Auto" in repeated:
        times |= medians(repeated, 3, warm_up=False)
    some = np.random.default_rng(2).permutation(len(X_test))[:_JUDGED]
    exact = np.min([each[1][some] for each in found.values()], axis=0)
    if "Cholesky()" not in found:
        most = cagp.NearestNeighbours(min(1600, problem.d))
        exact = np.minimum(exact, problem.prior.condition(X, X[:, 0], most).predict(X_test[some]).variance)
    excess = {name: (each[1][some] - exact).mean() / exact.mean() for name, each in found.items()}
    able = {name: times[name] for name in found if name != "Auto" and excess[name] <= _EXCESS}
    best = min(able, key=able.__getitem__) if able else None
    details = "; ".join(f"{name} {times[name]:.2g} s, {100 * excess[name]:.2g}%" for name in found)
    row = [f"{problem.d:,}", f"{problem.p}", f"{len(X_test):,}", short(picked)]
    row += [f"{times['Auto']:.2g}", f"{100 * excess['Auto']:.2g}%"]
    if best is None:
        return [*row, "none", "–", "–"], details
    return [*row, short(best), f"{able[best]:.2g}", f"{times['Auto'] / able[best]:.2f}"], details


def short(solver: str) -> str:
    """The name of a solver, with its neighbours."""
    name = solver.partition("(")[0]
    if name != "NearestNeighbours":
        return name
    return f"{name}({solver.partition('k=')[2].rstrip(')') or 100})"


def main() -> None:
    arguments = options(__doc__).parse_args()
    found = []
    for problem in QUICK if arguments.quick else PROBLEMS:
        found.append(rows(problem))
        print(*found[-1], flush=True)
    columns = ["d", "p", "T", "Auto picked", "s", "excess", "best within 1%", "s", "Auto / best"]
    notes = "Medians of three rounds below 2 s."
    short_ones = table("Auto and the best solver it could have picked", columns, [row for row, _ in found], notes)
    table(
        "All that was measured",
        ["d", "p", "T", "solver, seconds, excess"],
        [[*row[:3], details] for row, details in found],
    )
    write(arguments.out, "auto", "Auto counts the cost", [short_ones], arguments.quick)


if __name__ == "__main__":
    main()
