"""Problems with a memory budget: how far a prediction raises the peak of a process, beside what it may use."""

from __future__ import annotations

import functools
import os
from pathlib import Path

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


def _resident(what: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


@functools.cache
def load() -> None:
    """Compiled code, and what compiles it: more than a hundred MiB that stay, and are no data."""
    X = np.random.default_rng(0).random((4100, 2))
    for kernel in (cagp.Matern32(0.2), cagp.RBF(0.1) + cagp.Matern12(0.5)):
        for solver in (cagp.GaussSeidel(1), cagp.ConjugateGradient(1), cagp.NearestNeighbours(50)):
            model = cagp.Prior(kernel, noise_variance=0.05).condition(X, X[:, 0], solver, storage="tiles")
            model.predict(X[:20], progress=False)


def memory(seed: int, folder: Path) -> str:
    """A prediction within a budget, in a fork; at most a tenth more, and the latitude, or a refusal."""
    rng = np.random.default_rng([7, seed])
    n, T, p = int(rng.integers(1000, 6000)), int(rng.integers(100, 4000)), int(rng.integers(1, 4))
    budget = float(2**20 * 10 ** rng.uniform(1.3, 2.5))
    solver, storage = pick(rng, SOLVERS), pick(rng, ("auto", "auto", "tiles", "dense"))
    X, X_test, y = rng.random((n, p)), rng.random((T, p)), rng.normal(size=n)
    prior = cagp.Prior(pick(rng, (cagp.Matern32(0.2), cagp.RBF(0.1) + cagp.Matern12(0.5))), noise_variance=0.05)
    load()
    prior.condition(X[:300], y[:300], solver).predict(X_test[:5], progress=False)  # what is loaded once
    receiver, sender = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
            before, said = _resident("VmRSS"), "predicted"
            try:
                model = prior.condition(X, y, solver, storage=storage, memory_budget=budget)
                check = model.predict(X_test, progress=False)
                assert np.isfinite(check.variance).all()
                assert (check.variance >= 0).all()
            except cagp.CagpError as error:
                said = f"refused: {type(error).__name__}"
            os.write(sender, f"{_resident('VmHWM') - before}|{said}".encode())
        finally:
            os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as pipe:
        taken, _, said = pipe.read().decode().partition("|")
    os.waitpid(pid, 0)
    assert said, "the process died"
    over = f"{solver!r}, {storage}, n={n}, T={T}: {int(taken) / 2**20:.0f} MiB with a budget of {budget / 2**20:.0f}"
    assert int(taken) <= 1.1 * budget + LATITUDE, over
    return said
