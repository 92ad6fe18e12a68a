"""Fisher scoring: Newton's method with the expected information in place of the second derivatives, in log space.

Near the optimum of many observations the two hardly differ, so that a handful of evaluations is enough where methods
that learn the curvature from gradients need dozens. What differs is learned from the gradients (a symmetric rank-one
correction), for few observations and for kernels that do not fit. Steps stay within a radius that grows where the
likelihood did what the quadratic model said and shrinks where it did not, and within the bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .likelihood import Evaluation

_FIRST_RADIUS = np.log(10.0)
_LARGEST_RADIUS = np.log(1000.0)
_SMALLEST_RADIUS = 1e-7
"""The change of any logarithm of a hyperparameter in one step."""

_NEAR = 0.5
"""Curvature is learned from steps that change no logarithm by more than this."""

_FLAT = 1e-10
"""Added to the information, as a fraction of its largest entry: in flat directions nothing else would hold a step."""


@dataclass(frozen=True)
class Scored:
    """Where scoring ended: ``at`` (q,) and the number of steps; ``settled`` says whether that is an optimum."""

    at: np.ndarray
    settled: bool
    reason: str
    steps: int


def fisher_scoring(
    evaluate: Callable[[np.ndarray], Evaluation | None],
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    slope: float,
    gain: float,
    max_steps: int,
    advance: Callable[[], None],
) -> Scored:
    """Climb from ``start`` (q,) within ``low`` … ``high``, until no component of the gradient is larger than ``slope``,
    or no step promises more than ``gain``.

    ``evaluate`` gives an evaluation with its information, or None where there is no likelihood.
    """
    at, radius = start, _FIRST_RADIUS
    here = evaluate(at)
    learned = np.zeros((len(start), len(start)))
    step = 0
    while step < max_steps:
        if here is None or here.information is None:
            break
        gradient = here.gradient
        inner = ~((at <= low) & (gradient < 0)) & ~((at >= high) & (gradient > 0))
        if not inner.any() or np.abs(gradient[inner]).max() <= slope:
            return Scored(at, True, "the gradient vanished", step)
        curvature = here.information + learned
        if np.linalg.eigvalsh(curvature)[0] <= 0:
            curvature, learned = here.information, np.zeros_like(learned)
        move = _step(gradient, curvature, inner, at, low, high, radius)
        promised = gradient @ move - 0.5 * move @ curvature @ move
        if promised <= gain:
            return Scored(at, True, "no further step promises more", step)
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
    return Scored(at, False, "", step)


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
        floor = _FLAT * max(float(curvature.diagonal().max()), np.finfo(float).tiny)
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
