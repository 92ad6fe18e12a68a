"""Simulation-based calibration, the paper's Algorithm "sbc" (Talts et al., 2018)."""

from __future__ import annotations

import numbers
from collections.abc import Iterator

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..memory import resolve_budget
from ..prior import Prior
from ..progress import progress as progress_bar
from ..solvers import Solver, as_solver
from ..validation import ArrayLike, as_float64, count, points
from .checks import fraction, optional
from .draws import draw
from .projection import Projection
from .result import SimulationResult

Problem = tuple[Prior, torch.Tensor, torch.Tensor, torch.Tensor, float, Solver]
"""What a ``Projection`` is made of, apart from the memory budget."""

_CHUNKS_PER_JOB = 8
"""Pieces of work per process: enough for a progress bar that moves, few enough that G is rarely made anew."""


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
    n_jobs: int = 1,
    memory_budget: float | None = None,
    progress: bool | None = None,
) -> SimulationResult:
    """Is the posterior of ``solver`` calibrated when f and y come from ``prior``?

    Draws f and y from the prior ``n_simulations`` times, at training points X (d, p) and test points X_test (T, p),
    and compares the posterior of wᵀf(X′) with the truth: z = wᵀ(mean − truth) / √(wᵀCw) and t = Φ(z), which are
    standard normal and uniform if the posterior is calibrated. ``test_vector`` w (T,) is by default a random unit
    vector. See ``Assessment`` for the tests and the verdict; ``level`` is their family-wise error.

    Weights of solvers with ``calibrated = True`` do not depend on y, so one solve serves all simulations. Others are
    solved once per simulation, in ``n_jobs`` processes (−1: one per core). ``solve_each=True`` does so for every
    solver, which does not take the solver's word for it. The prior mean cancels and must not be estimated from y.
    ``memory_budget`` is in bytes, half of the free memory by default. ``progress`` shows a bar: None on a terminal
    only, True or False always or never.

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
    jobs = _jobs(n_jobs)
    for_vector, for_draws = np.random.SeedSequence(count(seed, "seed")).spawn(2)
    w = _test_vector(test_vector, len(test), for_vector, train.device)
    _require_known_mean(prior, train)
    each = _solves_each(solver, solve_each)
    budget = resolve_budget(memory_budget, train.device)

    draws = draw(prior, train, test, w, n, np.random.default_rng(for_draws), budget)
    problem = (prior, train, test, w, draws.prior_variance, solver)
    with progress_bar("simulate", n if each else 1, progress) as advance:
        if each:
            errors, variances = draws.b.new_empty(n), draws.b.new_empty(n)
            for start, predicted, variance in _solve_each(problem, budget, draws.b, jobs):
                done = slice(start, start + len(predicted))
                errors[done] = predicted - draws.truth[done]
                variances[done] = variance
                advance(len(predicted))
        else:
            u, of_all = Projection(*problem, budget=budget).solve(torch.zeros_like(draws.b[0]))
            errors, variances = draws.b @ u - draws.truth, torch.full_like(draws.truth, of_all)
            advance(1)
    vector = w.cpu().numpy().copy()
    vector.setflags(write=False)
    return SimulationResult(
        (errors / variances.sqrt()).cpu().numpy(),
        level,
        solver=solver,
        test_vector=vector,
        seed=seed,
        solves=n if each else 1,
        jitter=0.0,
        factor=draws.factor,
    )


def _solve_each(
    problem: Problem, budget: int, b: torch.Tensor, jobs: int
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """One solve per row of b (n, d): yields (first row, means (k,), variances (k,)) as they are done."""
    if jobs == 1:
        projection = Projection(*problem, budget=budget)
        for i, row in enumerate(b):
            u, variance = projection.solve(row)
            yield i, (u @ row)[None], torch.full_like(row[:1], variance)
        return
    joblib = optional("joblib", "n_jobs above 1")
    size = max(1, -(-len(b) // (jobs * _CHUNKS_PER_JOB)))
    tasks = (
        joblib.delayed(_solve_chunk)(problem, budget // jobs, i, b[i : i + size].clone())
        for i in range(0, len(b), size)
    )
    yield from joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def _solve_chunk(problem: Problem, budget: int, start: int, b: torch.Tensor) -> tuple[int, torch.Tensor, torch.Tensor]:
    """The work of one process: the rows of b (k, d), which are rows start, start + 1, … of all."""
    parts = list(_solve_each(problem, budget, b, jobs=1))
    return start, torch.cat([mean for _, mean, _ in parts]), torch.cat([variance for _, _, variance in parts])


# --- checks -----------------------------------------------------------------------------------------------------------


def _jobs(n_jobs: int) -> int:
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise InputError(f"n_jobs must be a number of processes, or −1 for one per core, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else int(optional("joblib", "n_jobs below 0").effective_n_jobs(n_jobs))


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


def _require_known_mean(prior: Prior, train: torch.Tensor) -> None:
    """A mean that is estimated from y would be another one in every simulation, and not the prior's."""
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


def _solves_each(solver: Solver, asked: bool | None) -> bool:
    if asked is None:
        return not solver.calibrated
    if not isinstance(asked, bool):
        raise InputTypeError(f"solve_each must be True, False or None, got {asked!r}")
    if not asked and not solver.calibrated:
        raise InputError(
            f"solve_each=False cannot be used with {solver!r}: its weights depend on y, so every simulation needs its "
            "own solve; leave solve_each out"
        )
    return asked
