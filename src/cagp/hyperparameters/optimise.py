"""The optimum in log space from several starts: Fisher scoring where the information is known, L-BFGS-B elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ..errors import NotPositiveDefiniteError
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from .fisher_scoring import fisher_scoring
from .likelihood import Evaluation, Likelihood
from .search_space import Space

_RELATIVE_DECREASE = 1e-11
"""Stop where an iteration improves log p / n by less than this fraction."""

_ABNORMAL = 2
"""SciPy's status where the line search of L-BFGS-B found no better point."""

_NEARLY = 100
"""How much larger than the tolerance the gradient may then be."""

_GAIN = 1e4
"""Scoring stops where a step promises less than so many times the square of the tolerance in log p: what is left is
about 140 times the tolerance, in standard errors.
"""

_SCORING_STEPS = 40
"""Fisher scoring that has not settled after so many steps leaves the rest to L-BFGS-B."""


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
        if self._interrupt.requested:
            raise _Stopped
        values = tuple(self._likelihood.space.values(log_values))
        try:
            evaluation = self._likelihood(log_values)
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
class _Ending:
    converged: bool
    reason: str
    iterations: int


def _climb(
    run: _Run, start: np.ndarray, space: Space, tolerance: float, max_iterations: int, advance: Advance
) -> _Ending:
    """Fisher scoring from ``start`` (q,), and L-BFGS-B in stages where that does not settle.

    The first steps of L-BFGS-B know nothing of the curvature, and one of them may leap to where the likelihood is
    flat. So the first stage changes no hyperparameter by more than a factor of ten; a stage that ends at its fence is
    followed by another one from there, with a fence twice as far away in log space.
    """
    at, iterations, fence = start, 0, np.log(10.0)
    if run.informed:
        scored = fisher_scoring(
            run.evaluate,
            start,
            space.lower,
            space.upper,
            slope=tolerance * run.size,
            gain=_GAIN * tolerance**2,
            max_steps=min(max_iterations, _SCORING_STEPS),
            advance=lambda: advance(1),
        )
        if scored.settled or scored.steps >= max_iterations:
            reason = scored.reason or "the number of iterations is reached"
            return _Ending(scored.settled, f"scoring: {reason}", scored.steps)
        at, iterations = scored.at, scored.steps
    while True:
        low, high = np.maximum(space.lower, at - fence), np.minimum(space.upper, at + fence)
        outcome = minimize(
            run,
            at,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={
                "maxiter": max_iterations - iterations,
                "gtol": tolerance,
                "ftol": _RELATIVE_DECREASE,
                "maxls": 40,
            },
            callback=lambda _: advance(1),
        )
        iterations += int(outcome.nit)
        at, fence = outcome.x, 2 * fence
        fenced = ((at <= low) & (low > space.lower)) | ((at >= high) & (high < space.upper))
        if not fenced.any() or not outcome.nit or iterations >= max_iterations:
            # where rounding hides the last bit of improvement the line search gives up, at a gradient that is small
            rounded = outcome.status == _ABNORMAL and _slope(at, outcome.jac, low, high) <= _NEARLY * tolerance
            converged = (bool(outcome.success) or rounded) and not fenced.any()
            reason = "as far as rounding errors allow" if rounded else str(outcome.message)
            return _Ending(converged, reason, iterations)


def _slope(at: np.ndarray, gradient: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """The largest component of the gradient (q,) of a function to be minimised that does not point out of the box."""
    return float(np.abs(np.clip(at - gradient, low, high) - at).max())


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
        ending = _Ending(False, "interrupted", 0)
        try:
            ending = _climb(run, start, likelihood.space, tolerance, max_iterations, advance)
        except NotPositiveDefiniteError as error:
            failure = error
        except _Stopped:
            pass
        advance(max_iterations - ending.iterations)
        trace += run.trace
        finals.append(-np.inf if run.best is None else run.best[1].log_likelihood)
        if run.best is not None and (best is None or finals[-1] > best.evaluation.log_likelihood):
            best = Optimum(*run.best, ending.converged, ending.reason, (), ())
        if interrupt.requested:
            break
    if best is None:
        raise failure or KeyboardInterrupt
    return Optimum(best.log_values, best.evaluation, best.converged, best.reason, tuple(trace), tuple(finals))
