"""How much of the error bar is computational, and what more work would buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..posterior import Posterior
from ..solvers.base import MoreWork
from ..support.numbers import duration, percent
from .refits import array, pass_seconds, refit, seconds, working

if TYPE_CHECKING:
    from ..model import Model

_SAMPLE = 40
_SMALLEST_SAMPLE = 8
_LIMIT_SECONDS = 10.0
_SINGLE_PRECISION_SECONDS = 10.0
_HOPELESS_SECONDS = 1800.0
_BOUND_SECONDS = 120.0


@dataclass(frozen=True, eq=False)
class Shares:
    """Computational shares of the variance at some test points, each (T,): guaranteed bounds and an estimate."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True, eq=False)
class Computation:
    """What the computation left undone, at a sample of test points (T,).

    ``now`` and ``later`` are the shares before and after ``what`` more work, None where nothing was measured; ``std``
    and ``later_std`` (T,) the standard deviations of f. ``sentences`` say it in words.
    """

    sentences: tuple[str, ...]
    what: str = ""
    std: np.ndarray | None = None
    later_std: np.ndarray | None = None
    now: Shares | None = None
    later: Shares | None = None


def measure(model: Model, seed: int) -> Computation:
    """Shares now and after ten more iterations (or twice the points, for solvers that work in one step)."""
    solver, size = working(model), len(model.y)
    if solver.is_exact(size):
        return Computation(
            (f"No part of the error bars is computational: {type(solver).__name__} solved the equations exactly, so "
             "they hold nothing but what the data leave unknown, and more computation would buy nothing.",)
        )  # fmt: skip
    extended = solver.with_more_work(size, seed)
    if extended is None:
        return Computation(
            (f"{type(solver).__name__} has no number of iterations to raise, so nothing was tried; "
             "posterior.computational_variance bounds the computational part.",)
        )  # fmt: skip
    T = _SAMPLE
    while T > _SMALLEST_SAMPLE and seconds(model, extended.solver, size, T) > _LIMIT_SECONDS:
        T = max(_SMALLEST_SAMPLE, T // 2)
    expected = seconds(model, extended.solver, size, T)
    if expected > _HOPELESS_SECONDS:
        return Computation(
            (f"Not measured: {extended.what} with {size:,} observations would take about {duration(expected)} even "
             f"for {T} test points. posterior.computational_variance tells how much there is to gain.",)
        )  # fmt: skip
    single = expected > _SINGLE_PRECISION_SECONDS and model.gram.dtype == torch.float64
    points = sample_points(model, T, seed)
    before, after = _two_posteriors(model, extended, points, torch.float32 if single else None)
    return _compared(model, extended, before, after, T, single)


def sample_points(model: Model, n: int, seed: int) -> torch.Tensor:
    """n places to predict at, like those of the data (n, p): between pairs of neighbouring observations."""
    rng = np.random.default_rng(seed)
    X = model.X
    first = torch.from_numpy(rng.choice(len(X), n, replace=len(X) < n)).to(X.device)
    second = _nearest_other(X, first)
    part = torch.from_numpy(rng.uniform(0.25, 0.75, (n, 1))).to(X)
    return X[first] + part * (X[second] - X[first])


def _nearest_other(X: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """The nearest different point to each chosen one, columns measured by their spread; itself where it has none."""
    spread = X.std(dim=0, correction=0)
    scaled = X / torch.where(spread > 0, spread, torch.ones_like(spread))
    distance = torch.cdist(scaled[chosen], scaled)
    distance[distance == 0] = torch.inf
    nearest = distance.argmin(dim=1)
    alone = torch.isinf(distance.amin(dim=1))
    return torch.where(alone, chosen, nearest)


def _two_posteriors(
    model: Model, extended: MoreWork, points: torch.Tensor, solve_dtype: torch.dtype | None
) -> tuple[Posterior, Posterior]:
    """The posteriors of the model and of the extended solver; one run where its iterates include the model's."""
    longer = refit(model, extended.solver, solve_dtype=solve_dtype)
    if not extended.counted:
        return model.predict(points, progress=False), longer.predict(points, progress=False)
    wanted = (model.prepared.limit, longer.prepared.limit)
    reached = {int(post.iterations.max()): post for post in longer.iterate(points, only=wanted)}
    before = reached.get(wanted[0]) or model.predict(points, progress=False)
    return before, reached.get(wanted[1]) or longer.predict(points, progress=False)


def _compared(
    model: Model, extended: MoreWork, before: Posterior, after: Posterior, T: int, single: bool
) -> Computation:
    now, then = array(before.variance), array(after.variance)
    gained, shrink = now - then, 1 - np.sqrt(then / now)
    measured = (
        f"Measured: {extended.what} would {_change(float(np.median(shrink)))} (median; at most "
        f"{percent(float(shrink.max()))})"
    )
    if 3 * pass_seconds(len(model.y), T) > _BOUND_SECONDS:
        # without bounds, which need products with G: what more work removed was computational, so at least that much
        least = percent(float(np.median(np.maximum(gained, 0) / now)))
        sentences = [
            f"Now, at {T} places like those of the data, at least {least} of the variance is computational (median): "
            f"that much was removed by {extended.what}. Bounds from above need products with the whole Gram matrix, "
            "which are too long at this size.",
            f"{measured}.",
        ]
        return Computation(tuple(sentences), extended.what, np.sqrt(now), np.sqrt(then))
    bounds = after.computational_variance
    # the exact posterior is the same, so what the work took off the variance was computational: the bounds shift by it
    left = Shares(*(np.clip(array(part), 0, then) / then for part in (bounds.lower, bounds.estimate, bounds.upper)))
    had = Shares(*(np.clip(np.maximum(gained, 0) + part * then, 0, now) / now for part in vars(left).values()))
    sentences = [
        f"Now, at {T} places like those of the data, {_typical(had)} of the variance is computational: it is there "
        "because the solver stopped, and more computation would remove it. The rest is what the data leave unknown.",
        f"{measured}, and leave a computational share of {_typical(left)}.",
        _worth(float(np.median(had.estimate)), float(np.median(shrink)), extended.what),
    ]
    if single:
        sentences.append(
            "The iterations were done in single precision to save time, and the variances computed from their weights "
            "in double precision."
        )
    return Computation(tuple(sentences), extended.what, np.sqrt(now), np.sqrt(then), had, left)


def _typical(shares: Shares) -> str:
    low, middle, high = (float(np.median(part)) for part in (shares.lower, shares.estimate, shares.upper))
    if percent(low) == percent(high):
        return f"{percent(middle)} (median, guaranteed)"
    return f"about {percent(middle)} (median; guaranteed between {percent(low)} and {percent(high)})"


def _change(shrink: float) -> str:
    if shrink == 0:
        return "not change the error bars"
    return f"make the error bars {percent(abs(shrink))} {'narrower' if shrink > 0 else 'wider'}"


def _worth(share: float, shrink: float, what: str) -> str:
    if share < 0.05:
        return "The computation has converged as far as it matters: more of it would hardly be seen."
    if shrink > 0.02:
        return f"Worth it if narrower error bars matter to you: ask for {what}."
    return (
        "More of the same is slow here: a better method would gain more, such as CalibratedCG with a Nystrom "
        "preconditioner, or NearestNeighbours."
    )
