"""Problems with a memory budget: how far what is asked raises the peak of a process, beside what it may use."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

import cagp
from hard.ugly import pick

LATITUDE = 64 * 2**20
"""What a process takes beside the arrays that the budget counts: tiles and scratch of fixed size, code that
is loaded, the arenas of malloc. Up to 40 MiB were measured, so a budget below some hundred MiB is not kept to a tenth.
"""

SOLVERS = (
    cagp.Cholesky(),
    cagp.GaussSeidel(2),
    cagp.CalibratedCG(4),
    cagp.CalibratedCG(3, cagp.Nystrom(50)),
    cagp.NearestNeighbours(20),
    cagp.RandomDirections(20),
    cagp.Subset(200),
    cagp.Stationary("jacobi", 3),
)
KERNELS = (cagp.Matern32(0.2), cagp.RBF(0.1) + cagp.Matern12(0.5))


def _resident(what: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


@functools.cache
def load() -> None:
    """Compiled code, and what compiles it: more than a hundred MiB that stay, and are no data."""
    X = np.random.default_rng(0).random((4100, 2))
    for kernel in KERNELS:
        for solver in (cagp.GaussSeidel(1), cagp.ConjugateGradient(1), cagp.NearestNeighbours(50)):
            model = cagp.Prior(kernel, noise_variance=0.05).condition(X, X[:, 0], solver, storage="tiles")
            model.predict(X[:20], progress=False)


def peak(work: Callable[[], object]) -> tuple[int, str]:
    """By how many bytes work in a fork raises the peak, and what became of it."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
            before, said = _resident("VmRSS"), "done"
            try:
                work()
            except cagp.CagpError as error:
                said = f"refused: {type(error).__name__}"
            except Exception as error:
                said = f"failed: {error!r}"
            os.write(sender, f"{_resident('VmHWM') - before}|{said}".encode())
        finally:
            os._exit(0)
    os.close(sender)
    try:
        with os.fdopen(receiver, "rb") as pipe:
            taken, _, said = pipe.read().decode().partition("|")
    finally:  # one that takes too long as well
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert said, "the process died"
    assert not said.startswith("failed"), said
    return int(taken), said


def kept(budget: float, work: Callable[[], object], what: str) -> str:
    """Work within a budget: at most a tenth more, and the latitude, or a refusal."""
    taken, said = peak(work)
    over = f"{what}: {taken / 2**20:.0f} MiB with a budget of {budget / 2**20:.0f}"
    assert taken <= 1.1 * budget + LATITUDE, over
    return said


@dataclass
class Asked:
    """A prior, what it is conditioned on, and test points."""

    prior: cagp.Prior
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    solver: cagp.Solver
    how: dict[str, Any]

    @property
    def model(self) -> cagp.Model:
        return self.prior.condition(self.X, self.y, self.solver, **self.how)

    @property
    def prediction(self) -> Any:
        return self.model.predict(self.X_test, progress=False)

    @property
    def memory(self) -> dict[str, Any]:
        """The budget alone, for what takes no other option."""
        return {name: value for name, value in self.how.items() if name == "memory_budget"}

    @property
    def small(self) -> Asked:
        """A few of the points, with all the memory there is."""
        return Asked(self.prior, self.X[:300], self.y[:300], self.X_test[:5], self.solver, {})

    def predict(self) -> None:
        found = self.prediction
        assert np.isfinite(found.variance).all()
        assert (found.variance >= 0).all()


def memory(seed: int, folder: Path) -> str:
    """A prediction within a small budget."""
    rng = np.random.default_rng([7, seed])
    n, T, p = int(rng.integers(1000, 6000)), int(rng.integers(100, 4000)), int(rng.integers(1, 4))
    budget = float(2**20 * 10 ** rng.uniform(1.3, 2.5))
    solver, storage = pick(rng, SOLVERS), pick(rng, ("auto", "auto", "tiles", "dense"))
    X, X_test, y = rng.random((n, p)), rng.random((T, p)), rng.normal(size=n)
    prior = cagp.Prior(pick(rng, KERNELS), noise_variance=0.05)
    asked = Asked(prior, X, y, X_test, solver, {"storage": storage, "memory_budget": budget})
    load()
    asked.small.predict()  # what is loaded once
    return kept(budget, asked.predict, f"{solver!r}, {storage}, n={n}, T={T}")


# --- large budgets, for all that takes one ---------------------------------------------------------------------------

Sizes = Callable[[float, int, int], tuple[float, float]]
"""How many observations and test points about so many bytes are for, from n observations and numbers per test point."""


def _points(rows: int, dense: bool = False) -> Sizes:
    """So many test points that they take ``rows`` numbers for each number of their weights, or each observation."""
    return lambda b, n, each: (n, b / (8 * rows * (n if dense else each)))


def _pairs(copies: int) -> Sizes:
    return lambda b, n, each: (n, sqrt(b / (8 * copies)))


def _matrices(copies: int, tests: int = 5) -> Sizes:
    return lambda b, n, each: (sqrt(b / (8 * copies)), tests)


def _fit(asked: Asked) -> None:
    options: dict[str, Any] = {"kernel": asked.prior.kernel, "solver": asked.solver, "seconds": 5.0, "progress": False}
    model = cagp.fit(asked.X, asked.y, fit_options=asked.memory, condition_options=asked.how, **options)
    model.predict(asked.X_test, progress=False)


def _stop(asked: Asked) -> None:
    asked.model.predict(asked.X_test, stop=cagp.stopping.ComputationalShare(0.3), progress=False)


def _average(asked: Asked) -> cagp.Prediction:
    groups = np.arange(len(asked.X_test)) % max(1, len(asked.X_test) // 4)
    return asked.model.average(asked.X_test, by=groups, progress=False)


def _maximise(asked: Asked, likelihood: str, **options: Any) -> None:
    how = {"likelihood": likelihood, "max_iterations": 1, "progress": False, **options}
    asked.prior.fit(asked.X, asked.y, **how, **asked.memory)


def _simulate_calibration(asked: Asked) -> None:
    what = asked.prior, asked.X, asked.X_test, asked.solver, 20
    cagp.calibration.simulation_based_calibration(*what, progress=False, **asked.memory)


VERBS: dict[str, tuple[Sizes, Callable[[Asked], object]]] = {
    "predict": (_points(3), Asked.predict),
    "stopped": (_points(12, dense=True), _stop),
    "predict_mean": (_points(1), lambda a: a.model.predict_mean(a.X_test)),
    "bounds": (_points(6, dense=True), lambda a: a.prediction.computational_variance.upper),
    "weights": (_points(6, dense=True), lambda a: a.prediction.weights),
    "covariance": (_pairs(8), lambda a: a.prediction.covariance()),
    "sample": (_pairs(8), lambda a: a.prediction.sample(3)),
    "simulate": (_points(3), lambda a: a.model.simulate(a.X_test, 20, method="vecchia", progress=False)),
    "many fields": (lambda b, n, each: (n, b / 72000), lambda a: a.model.simulate(a.X_test, 2500, progress=False)),
    "average": (_points(3, dense=True), _average),
    "joint averages": (_pairs(1), lambda a: _average(a).covariance()),
    "gradient": (_points(12), lambda a: a.model.gradient(a.X_test, progress=False).covariance()),
    "where_next": (_pairs(12), lambda a: a.model.where_next(a.X_test, 3)),
    "left_out": (_matrices(3), lambda a: a.model.left_out(progress=False)),
    "recalibrated": (
        lambda b, n, each: (sqrt(b / 24), b / 24 / 8000),
        lambda a: a.model.recalibrated(progress=False).predict(a.X_test, progress=False),
    ),
    "log_likelihood": (
        _matrices(2),
        lambda a: a.prior.log_likelihood(a.X, a.y, likelihood="exact", **a.memory),
    ),
    "hyperparameters": (_matrices(3), lambda a: _maximise(a, "exact")),
    "neighbours": (lambda b, n, each: (b / 8 / 60**2, 5), lambda a: _maximise(a, "nearest-neighbours", terms="all")),
    "fit": (lambda b, n, each: (n, b / 8 / 1200), _fit),
    "prior draws": (_pairs(4), lambda a: a.prior.sample(a.X_test, 3, **a.memory)),
    "simulations": (_matrices(4, 20), _simulate_calibration),
}
"""What takes a budget or inherits one, with the sizes for which it takes about that; nothing of shards does."""

SOLVER_FOR = {
    **dict.fromkeys(("left_out", "recalibrated", "where_next"), cagp.Cholesky()),  # the others take little, or refuse
    "many fields": cagp.NearestNeighbours(20),  # the others take minutes
    "predict_mean": cagp.GaussSeidel(2),  # has means without variances
    "fit": cagp.Subset(200),
}


def budget(seed: int, folder: Path) -> str:
    """One of the verbs within a budget of 0.4 to 2 GiB, from half of what it needs to about twice of that."""
    rng = np.random.default_rng([15, seed])
    verb, (sizes, work) = list(VERBS.items())[seed % len(VERBS)]
    slow = verb in ("hyperparameters", "recalibrated")  # O(n³)
    most, p = float(2.0 ** rng.uniform(28.7, 29 if slow else 31)), int(rng.integers(1, 4))
    kernel = cagp.Matern32(0.2) if verb == "gradient" else pick(rng, KERNELS)
    solver = SOLVER_FOR.get(verb) or pick(rng, SOLVERS)
    storage = pick(rng, ("auto", "auto", "tiles"))
    n = int(rng.integers(1000, 3000))
    each = 100 if isinstance(solver, cagp.NearestNeighbours) else n  # numbers that a test point needs, about
    n, T = (int(size) for size in sizes(most * float(2.0 ** rng.uniform(-1, 1)), n, each))
    X, X_test, y = rng.random((n, p)), rng.random((T, p)), rng.normal(size=n)
    how = {"storage": storage, "memory_budget": most}
    asked = Asked(cagp.Prior(kernel, noise_variance=0.05), X, y, X_test, solver, how)
    load()
    work(asked.small)  # what is loaded once
    return f"{verb} {kept(most, lambda: work(asked), f'{verb}, {solver!r}, {storage}, n={n}, T={T}, p={p}')}"


MEMORY = {"memory": memory, "budget": budget}
