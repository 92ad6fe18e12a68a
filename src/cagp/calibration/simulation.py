"""Simulation-based calibration, the paper's Algorithm "sbc" (Talts et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..prior import Prior
from ..solvers import Solver, as_solver
from ..support.interrupt import Interrupt
from ..support.memory import resolve_budget
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, as_float64, count, fraction, points, vector
from ..workers.pool import Parcel, Pool, find_pool
from .assessment import SimulationResult
from .projection import Projection, draw

Problem = tuple[Prior, torch.Tensor, torch.Tensor, torch.Tensor, float, Solver]
"""What a ``Projection`` is made of, apart from the memory budget."""

_CHUNKS_PER_WORKER = 8  # enough for a bar that moves and workers of different speed, few enough that each pays off


def simulation_based_calibration(
    prior: Prior,
    X: ArrayLike,
    X_test: ArrayLike,
    solver: Solver | str,
    n_simulations: int = 1000,
    test_vector: ArrayLike | None = None,
    seed: int = 0,
    *,
    level: float = 0.01,
    solve_each: bool | None = None,
    n_jobs: int | None = None,
    memory_budget: float | None = None,
    progress: bool | None = None,
) -> SimulationResult:
    """Is the posterior of ``solver`` calibrated when f and y come from ``prior``?

    Draws f and y from the prior ``n_simulations`` times, at training points X (d, p) and test points X_test (T, p):
    z = wᵀ(mean − truth) / √(wᵀCw) is standard normal if the posterior is calibrated. ``test_vector`` w (T,) is by
    default a random unit vector. ``level`` is the family-wise error of the tests; see ``Assessment``.

    One solve serves all simulations where weights do not depend on y: for solvers with ``calibrated = True``. Others,
    and with ``solve_each=True`` all, are solved once per simulation, by ``n_jobs`` workers of joblib (−1: one per core;
    1: this process; None: what ``joblib.parallel_config`` says, and else this process). The prior mean must not be
    estimated from y. ``memory_budget`` is in bytes, half of the free memory by default; processes of this machine
    share it, workers of a cluster have as much each. ``progress`` shows a bar: None on a terminal only.

    >>> import cagp, numpy as np
    >>> from cagp.calibration import simulation_based_calibration
    >>> rng = np.random.default_rng(0)
    >>> prior = cagp.Prior(cagp.Matern32(lengthscale=0.2), noise_variance=0.01)
    >>> X, X_test = rng.random((50, 2)), rng.random((20, 2))
    >>> simulation_based_calibration(prior, X, X_test, solver=cagp.GaussSeidel(iterations=5)).verdict
    'calibrated'
    """
    if not isinstance(prior, Prior):
        raise InputTypeError(f"prior must be a cagp.Prior, got {type(prior).__name__}")
    solver = as_solver(solver)
    train = points(X, "X")
    test = points(X_test, "X_test", train.device, columns=train.shape[1])
    n = count(n_simulations, "n_simulations", minimum=2)
    level = fraction(level, "level")
    pool = find_pool(n_jobs)
    for_vector, for_draws = np.random.SeedSequence(count(seed, "seed")).spawn(2)
    w = _test_vector(test_vector, len(test), for_vector, train.device)
    _require_prior_to_draw_from(prior, train)
    each = not solver.calibrated if solve_each is None else solve_each
    if not isinstance(each, bool):
        raise InputTypeError(f"solve_each must be True, False or None, got {solve_each!r}")
    if not each and not solver.calibrated:
        why = "its weights depend on y, so every simulation needs its own solve"
        raise InputError(f"solve_each=False cannot be used with {solver!r}: {why}; leave solve_each out")
    budget = resolve_budget(memory_budget, train.device)

    draws = draw(prior, train, test, w, n, np.random.default_rng(for_draws), budget)
    problem = (prior, train, test, w, draws.prior_variance, solver)
    with progress_bar("simulate", n if each else 1, progress) as advance:
        errors, variances = torch.empty_like(draws.truth), torch.empty_like(draws.truth)
        for start, predicted, variance in _solved(problem, budget, draws.b, each, pool):
            done = slice(start, start + len(predicted))
            errors[done] = predicted - draws.truth[done]
            variances[done] = variance
            advance(len(predicted) if each else 1)
    z, test_vector = (errors / variances.sqrt()).cpu().numpy(), vector(w, "test_vector")
    how: Any = {"solver": solver, "test_vector": test_vector, "seed": seed, "factor": draws.factor}
    return SimulationResult(z, level, solves=n if each else 1, **how)


def _solved(
    problem: Problem, budget: int, b: torch.Tensor, each: bool, pool: Pool | None
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """(first row, means (k,), variances (k,)) as they are done: one solve for ``each`` row of b (n, d), or for all."""
    if pool is None or not (each or pool.elsewhere):  # for one solve no process needs to be started
        projection = Projection(*problem, budget=budget)
        for i, rows in enumerate(b.split(1 if each else len(b))):
            yield i, *_solve_rows(projection, rows, each)
        return
    size = max(1, -(-len(b) // (pool.count * _CHUNKS_PER_WORKER))) if each else len(b)
    share = budget if pool.elsewhere else budget // pool.count
    parcel = Parcel.of(partial(Projection, *problem, budget=share))  # a worker makes G and V once, for all it solves
    calls = ((parcel, i, b[i : i + size].cpu().clone(), each) for i in range(0, len(b), size))
    with Interrupt() as interrupt:
        for start, means, variances in pool.results(_solve_chunk, calls, interrupt):
            yield start, means.to(b.device), variances.to(b.device)
    if interrupt.requested:  # a part of the simulations is no answer
        raise KeyboardInterrupt


def _solve_chunk(
    parcel: Parcel[Projection], start: int, b: torch.Tensor, each: bool
) -> tuple[int, torch.Tensor, torch.Tensor]:
    """The work of one worker: the rows of b (k, d), which are rows start, start + 1, … of all."""
    projection = parcel.open()
    means, variances = _solve_rows(projection, b.to(projection.device), each)
    return start, means.cpu(), variances.cpu()


def _solve_rows(projection: Projection, b: torch.Tensor, each: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and variances, shape (k,) each, of one solve for ``each`` row of b (k, d), or of one for all."""
    means, variances = b.new_empty(len(b)), b.new_empty(len(b))
    if not each:
        u, variance = projection.solve(torch.zeros_like(b[0]))
        return b @ u, variances.fill_(variance)
    for i, given in enumerate(b):
        row = torch.empty_like(given).copy_(given)  # products round by where in memory a vector lies: always the same
        u, variances[i] = projection.solve(row)
        means[i] = u @ row
    return means, variances


def _test_vector(given: ArrayLike | None, T: int, seed: np.random.SeedSequence, device: torch.device) -> torch.Tensor:
    """w (T,): the one given, or a random unit vector."""
    if given is None:
        normal = torch.from_numpy(np.random.default_rng(seed).standard_normal(T)).to(device)
        return normal / normal.norm()
    w = as_float64(given, "test_vector", device)
    if w.shape != (T,):
        raise InputError(f"test_vector must have shape ({T},), one number per test point, got {tuple(w.shape)}")
    if not bool(w.any()):
        raise InputError("test_vector is zero everywhere; give a weight to at least one test point")
    return w


def _require_prior_to_draw_from(prior: Prior, train: torch.Tensor) -> None:
    """Errors do not depend on unknown coefficients; any other mean that looks at y would be no prior's."""
    if prior.mean.unknown:
        return
    probe = torch.arange(len(train), dtype=train.dtype, device=train.device)
    try:
        known = prior.mean.fit(train, probe) == prior.mean
    except InputError:
        known = False  # it tried to take something from the data
    if not known:
        raise InputError(
            f"the prior mean {prior.mean!r} takes its values from y, so there is no prior to simulate from; "
            "give a mean that is fully specified, such as Constant(0.0), or that of a conditioned model: "
            "prior.condition(X, y, solver).prior"
        )
