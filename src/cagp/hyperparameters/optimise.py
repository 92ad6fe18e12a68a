"""The optimum in log space from several starts: Fisher scoring where the information is known, L-BFGS-B elsewhere.

Fisher scoring is Newton's method with the expected information in place of the second derivatives. Near the optimum of
many observations the two hardly differ, so that a handful of evaluations is enough where methods that learn the
curvature from gradients need dozens. What differs is learned from the gradients (a symmetric rank-one correction), for
few observations and for kernels that do not fit. Steps stay within a radius that grows where the likelihood did what
the quadratic model said and shrinks where it did not, and within the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from ..errors import NotPositiveDefiniteError
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from .likelihood import Evaluation, Likelihood
from .search_space import Space

_DECREASE = 1e-11  # stop where an iteration improves log p / n by less than this fraction
_ABNORMAL = 2  # sciPy's status where the line search of L-BFGS-B found no better point
_NEARLY = 100  # how much larger than the tolerance the gradient may then be
# Scoring stops where a step promises less than so many times the square of the tolerance in log p: what is left is
# about 140 times the tolerance, in standard errors.
_GAIN = 1e4
_SCORING_STEPS = 40  # fisher scoring that has not settled after so many steps leaves the rest to L-BFGS-B
_FIRST_RADIUS = np.log(10.0)
_LARGEST_RADIUS = np.log(1000.0)
_SMALLEST_RADIUS = 1e-7  # the change of any logarithm of a hyperparameter in one step
_NEAR = 0.5  # curvature is learned from steps that change no logarithm by more than this
# Added to the information, as a fraction of its largest entry: in flat directions nothing else would hold a step.
_FLAT = 1e-10


@dataclass(frozen=True)
class TraceStep:
    """One evaluation of the likelihood: from which start, at which ``values`` (q,), and what came out.

    ``gradient`` (q,) is with respect to the logarithms of the hyperparameters, and to angles in radians. Where G was
    not positive definite ``log_likelihood`` is −∞ and the gradient NaN.
    """

    start: int
    values: tuple[float, ...]
    log_likelihood: float
    gradient: tuple[float, ...]


@dataclass(frozen=True)
class Optimum:
    """The best point of one or several runs: ``log_values`` (q,), what the likelihood says there, and how it went."""

    log_values: np.ndarray
    evaluation: Evaluation
    converged: bool
    reason: str
    trace: tuple[TraceStep, ...]
    finals: tuple[float, ...]
    """The log-likelihood that each start reached."""


class _Stopped(Exception):
    """Ctrl-C, after the evaluation in hand."""


class _Run:
    """One start: −log p / n for the optimiser, remembering the best point and every step."""

    def __init__(self, likelihood: Likelihood, start: int, interrupt: Interrupt) -> None:
        self._likelihood = likelihood
        self._start = start
        self._interrupt = interrupt
        self._worst = -np.inf
        self.best: tuple[np.ndarray, Evaluation] | None = None
        self.trace: list[TraceStep] = []
        self.informed = likelihood.informed
        self.size = likelihood.computed

    def evaluate(self, log_values: np.ndarray) -> Evaluation | None:
        """What the likelihood says, noted; None where G is not positive definite, an error if so from the start."""
        if self._interrupt.requested and self.best is not None:
            raise _Stopped
        values = tuple(self._likelihood.space.values(log_values))
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # beyond float64 nothing is finite, which is looked at
                evaluation = self._likelihood(log_values)
            if not np.isfinite([evaluation.log_likelihood, *evaluation.gradient]).all():
                raise NotPositiveDefiniteError(f"the likelihood is beyond float64 at {values}; rescale y, and X")
        except NotPositiveDefiniteError:
            self.trace.append(TraceStep(self._start, values, -np.inf, (np.nan,) * len(values)))
            if self.best is None:
                raise
            return None
        self.trace.append(
            TraceStep(self._start, values, evaluation.log_likelihood, tuple(evaluation.gradient.tolist()))
        )
        if self.best is None or evaluation.log_likelihood > self.best[1].log_likelihood:
            self.best = log_values.copy(), evaluation
        return evaluation

    def __call__(self, log_values: np.ndarray) -> tuple[float, np.ndarray]:
        evaluation, n = self.evaluate(log_values), self.size
        if evaluation is None:
            # finite, flat and worse than all others: the line search turns back, and the trace shows that it had to
            return self._worst + 1 + abs(self._worst), np.zeros_like(log_values)
        objective = -evaluation.log_likelihood / n
        self._worst = max(self._worst, objective)
        return objective, -evaluation.gradient / n


@dataclass(frozen=True)
class Climb:
    """Where a climb ended: ``at`` (q,), whether that is an optimum, why it ended, and the number of steps."""

    at: np.ndarray
    settled: bool
    reason: str
    steps: int


def _climb(
    run: _Run, start: np.ndarray, space: Space, tolerance: float, max_iterations: int, advance: Advance
) -> Climb:
    """Fisher scoring from ``start`` (q,), and L-BFGS-B in stages where that does not settle.

    The first steps of L-BFGS-B know nothing of the curvature, and one of them may leap to where the likelihood is
    flat. So the first stage changes no hyperparameter by more than a factor of ten; a stage that ends at its fence is
    followed by another one from there, with a fence twice as far away in log space.
    """
    at, iterations, fence = start, 0, np.log(10.0)
    if run.informed:
        most, gain = min(max_iterations, _SCORING_STEPS), _GAIN * tolerance**2
        scored = fisher_scoring(
            run.evaluate, start, space.lower, space.upper, gain=gain, max_steps=most, advance=lambda: advance(1)
        )
        if scored.settled or scored.steps >= max_iterations:
            return replace(scored, reason=f"scoring: {scored.reason or 'the number of iterations is reached'}")
        at, iterations = scored.at, scored.steps
    while True:
        low, high = np.maximum(space.lower, at - fence), np.minimum(space.upper, at + fence)
        outcome = minimize(
            run,
            at,
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([low, high]),
            options={"maxiter": max_iterations - iterations, "gtol": tolerance, "ftol": _DECREASE, "maxls": 40},
            callback=lambda _: advance(1),
        )
        iterations += int(outcome.nit)
        at, fence = outcome.x, 2 * fence
        fenced = ((at <= low) & (low > space.lower)) | ((at >= high) & (high < space.upper))
        if not fenced.any() or not outcome.nit or iterations >= max_iterations:
            # where rounding hides the last bit of improvement the line search gives up, at a gradient that is small
            uphill = np.abs(np.clip(at - outcome.jac, low, high) - at).max()  # what does not point out of the box
            rounded = outcome.status == _ABNORMAL and uphill <= _NEARLY * tolerance
            settled = (bool(outcome.success) or rounded) and not fenced.any()
            reason = "as far as rounding errors allow" if rounded else str(outcome.message)
            return Climb(at, settled, reason, iterations)


def maximise(
    likelihood: Likelihood,
    starts: Sequence[np.ndarray],
    *,
    tolerance: float,
    max_iterations: int,
    interrupt: Interrupt,
    advance: Advance,
) -> Optimum:
    """The best of runs from ``starts``, each (q,), within the bounds of the likelihood's space.

    ``tolerance`` is for the gradient of log p / n in log space. A start where G is not positive definite is given up;
    where all are, the error is raised. Ctrl-C keeps the best point so far.
    """
    trace: list[TraceStep] = []
    finals: list[float] = []
    best: Optimum | None = None
    failure: NotPositiveDefiniteError | None = None
    for number, start in enumerate(starts):
        run = _Run(likelihood, number, interrupt)
        ending = Climb(start, False, "interrupted", 0)
        try:
            ending = _climb(run, start, likelihood.space, tolerance, max_iterations, advance)
        except NotPositiveDefiniteError as error:
            failure = error
        except _Stopped:
            ending = replace(ending, reason=interrupt.reason)
        advance(max_iterations - ending.steps)
        trace += run.trace
        finals.append(-np.inf if run.best is None else run.best[1].log_likelihood)
        if run.best is not None and (best is None or finals[-1] > best.evaluation.log_likelihood):
            best = Optimum(*run.best, ending.settled, ending.reason, (), ())
        if interrupt.requested:
            break
    if best is None:
        raise failure or KeyboardInterrupt
    return replace(best, trace=tuple(trace), finals=tuple(finals))


def fisher_scoring(
    evaluate: Callable[[np.ndarray], Evaluation | None],
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    gain: float,
    max_steps: int,
    advance: Callable[[], None],
) -> Climb:
    """Climb from ``start`` (q,) within ``low`` … ``high``, until no step promises more than ``gain``.

    How steep it is says nothing by itself: a hyperparameter of which the data tell little may still have far to go.

    ``evaluate`` gives an evaluation with its information, or None where there is no likelihood.
    """
    at, radius = start, _FIRST_RADIUS
    here = evaluate(at)
    learned = np.zeros((len(start), len(start)))
    step = 0
    while step < max_steps:
        if here is None or here.information is None or not np.isfinite(here.information).all():
            break
        gradient = here.gradient
        inner = ~((at <= low) & (gradient < 0)) & ~((at >= high) & (gradient > 0))
        if not gradient[inner].any():
            return Climb(at, True, "the gradient vanished", step)
        curvature = here.information + learned
        if np.linalg.eigvalsh(curvature)[0] <= 0:
            curvature, learned = here.information, np.zeros_like(learned)
        move = _step(gradient, curvature, inner, at, low, high, radius)
        promised = gradient @ move - 0.5 * move @ curvature @ move
        if promised <= gain:
            return Climb(at, True, "no further step promises more", step)
        there = evaluate(at + move)
        step += 1
        advance()
        reach = np.abs(move).max()
        gained = -np.inf if there is None else there.log_likelihood - here.log_likelihood
        if gained < 0.25 * promised:
            radius = reach / 4
        elif gained > 0.5 * promised and reach > 0.9 * radius:
            radius = min(2 * radius, _LARGEST_RADIUS)
        if there is not None and there.information is not None and reach < _NEAR:
            learned = _learned(learned, move, gradient - there.gradient, there.information)
        if gained > 0 and there is not None:
            at, here = at + move, there
        if radius < _SMALLEST_RADIUS:
            break
    return Climb(at, False, "", step)


def _learned(before: np.ndarray, move: np.ndarray, fall: np.ndarray, information: np.ndarray) -> np.ndarray:
    """What is added to the information (q, q), so that over the step ``move`` (q,) the gradient falls as it did."""
    missing = fall - (information + before) @ move
    along = float(missing @ move)
    if abs(along) <= 1e-8 * float(np.linalg.norm(missing) * np.linalg.norm(move)):
        return before
    return before + np.outer(missing, missing) / along


def _step(
    gradient: np.ndarray,
    curvature: np.ndarray,
    inner: np.ndarray,
    at: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    radius: float,
) -> np.ndarray:
    """The step (q,) of ``inner`` hyperparameters that the quadratic model likes best, no longer than ``radius``.

    It is shortened by a multiple of the identity added to the curvature, which leaves directions alone in which the
    likelihood is well curved. What would pass a bound stops there, and the others are asked again without it.
    """
    move = np.zeros_like(at)
    free = inner.copy()
    while free.any():
        curved, directions = np.linalg.eigh(curvature[np.ix_(free, free)])
        floor = max(_FLAT * float(curvature.diagonal().max()), _FLAT * float(np.abs(gradient).max()) / radius)
        # a hyperparameter that has stopped at a bound still bends the slope of the others
        slope = directions.T @ (gradient - curvature @ np.where(free, 0.0, move))[free]
        damping = 0.0
        while True:
            own = directions @ (slope / (np.maximum(curved, 0.0) + floor + damping))
            reach = np.abs(own).max()
            if reach <= radius:
                break
            damping = max(2.0 * damping, 1e-3 * float(np.abs(slope).max()) / radius)
        move[free] = own
        outside = free & ((at + move < low) | (at + move > high))
        move = np.clip(at + move, low, high) - at
        if not outside.any():
            break
        free &= ~outside
    return move
