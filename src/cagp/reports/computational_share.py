"""How much of the error bar is computational, and what more work would buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..algebra.operations import Operations
from ..model import Model
from ..predicting.bounds import ComputationalVariance
from ..solvers.base import Description
from ..support.convert import array
from ..support.numbers import duration, percent
from .inputs import refit, seconds, working
from .page import BLUE, ORANGE, new_figure, png

_SAMPLE, _SMALLEST_SAMPLE = 40, 8
_LIMIT_SECONDS, _HOPELESS_SECONDS, _BOUND_SECONDS = 10.0, 1800.0, 120.0


@dataclass(frozen=True, eq=False)
class Computation:
    """Standard deviations (T,) and computational shares at a sample of points, now and after ``what`` more work."""

    sentences: tuple[str, ...]
    what: str = ""
    std: np.ndarray | None = None
    later_std: np.ndarray | None = None
    now: ComputationalVariance | None = None
    later: ComputationalVariance | None = None


def measure(model: Model, seed: int) -> Computation:
    """Shares now and after ten more iterations (or twice the points, for solvers that work in one step)."""
    solver, size = working(model), len(model.y)
    known = solver.description(size)
    if known.exact:
        said = f"No part of the error bars is computational: {type(solver).__name__} solved the equations exactly, so "
        rest = "they hold nothing but what the data leave unknown, and more computation would buy nothing."
        return Computation((said + rest,))
    if known.more is None:
        said = f"{type(solver).__name__} has no number of iterations to raise, so nothing was tried; "
        return Computation((f"{said}posterior.computational_variance bounds the computational part.",))
    T = _SAMPLE
    while (expected := seconds(model, known.more, size, T)) > _LIMIT_SECONDS and T > _SMALLEST_SAMPLE:
        T = max(_SMALLEST_SAMPLE, T // 2)
    if expected > _HOPELESS_SECONDS:
        said = f"Not measured: {known.more_work} with {size:,} observations would take about {duration(expected)} even "
        said += f"for {T} test points. posterior.computational_variance tells how much there is to gain."
        return Computation((said,))
    single = expected > _LIMIT_SECONDS and model.gram.dtype == torch.float64
    points = sample_points(model, T, seed)
    longer = refit(model, known.more, solve_dtype=torch.float32 if single else None)
    both, reached = (model, longer), {}
    if known.continues:  # one run, whose iterates include the model's
        run = longer.iterate(points, only=tuple(each.prepared.limit for each in both))
        reached = {int(post.iterations.max()): post for post in run}
    before, after = (reached.get(each.prepared.limit) or each.predict(points, progress=False) for each in both)
    return _compared(model, known, before, after, single)


def sample_points(model: Model, n: int, seed: int) -> torch.Tensor:
    """n places to predict at, like those of the data (n, p): between pairs of neighbouring observations."""
    rng, X = np.random.default_rng(seed), model.X
    first = torch.from_numpy(rng.choice(len(X), n, replace=len(X) < n)).to(X.device)
    spread = X.std(dim=0, correction=0)
    scaled = X / torch.where(spread > 0, spread, 1.0)
    distance = torch.cdist(scaled[first], scaled)
    distance[distance == 0] = torch.inf  # the nearest that is different; where none is, the point itself
    nearest, second = distance.min(dim=1)
    second = torch.where(torch.isinf(nearest), first, second)
    part = torch.from_numpy(rng.uniform(0.25, 0.75, (n, 1))).to(X)
    return X[first] + part * (X[second] - X[first])


def _compared(model: Model, known: Description, before: Any, after: Any, single: bool) -> Computation:
    """What the posteriors of the model and of one with more work say; with iterations in ``single`` precision."""
    now, then = array(before.variance), array(after.variance)
    gained, shrink, T = now - then, 1 - np.sqrt(then / now), len(now)
    typical = float(np.median(shrink))
    by = f"make the error bars {percent(abs(typical))} {'narrower' if typical > 0 else 'wider'}"
    change = by if typical else "not change the error bars"
    measured = f"Measured: {known.more_work} would {change} (median; at most {percent(float(shrink.max()))})"
    if Operations.passes(3, len(model.y), T).seconds(tiles=True) > _BOUND_SECONDS:
        # without bounds, which need products with G: what more work removed was computational, so at least that much
        least = percent(float(np.median(np.maximum(gained, 0) / now)))
        said = (
            f"Now, at {T} places like those of the data, at least {least} of the variance is computational (median): "
            f"that much was removed by {known.more_work}. Bounds from above need products with the whole Gram matrix, "
            "which are too long at this size."
        )
        return Computation((said, f"{measured}."), known.more_work, np.sqrt(now), np.sqrt(then))
    left: ComputationalVariance = after.computational_variance.map(lambda part: np.clip(array(part), 0, then) / then)
    # the exact posterior is the same, so what the work took off the variance was computational: the bounds shift by it
    had = left.map(lambda part: np.clip(np.maximum(gained, 0) + part * then, 0, now) / now)
    worth = "More of the same is slow here: a better method would gain more, such as CalibratedCG with a Nystrom "
    worth += "preconditioner, or NearestNeighbours."
    if np.median(had.estimate) < 0.05:
        worth = "The computation has converged as far as it matters: more of it would hardly be seen."
    elif typical > 0.02:
        worth = f"Worth it if narrower error bars matter to you: ask for {known.more_work}."
    sentences = [
        f"Now, at {T} places like those of the data, {_typical(had)} of the variance is computational: it is there "
        "because the solver stopped, and more computation would remove it. The rest is what the data leave unknown.",
        f"{measured}, and leave a computational share of {_typical(left)}.",
        worth,
    ]
    if single:
        sentences.append(
            "The iterations were done in single precision to save time, and the variances computed from their weights "
            "in double precision."
        )
    return Computation(tuple(sentences), known.more_work, np.sqrt(now), np.sqrt(then), had, left)


def _typical(shares: ComputationalVariance) -> str:
    low, middle, high = (float(np.median(part)) for part in (shares.lower, shares.estimate, shares.upper))
    if percent(low) == percent(high):
        return f"{percent(middle)} (median, guaranteed)"
    return f"about {percent(middle)} (median; guaranteed between {percent(low)} and {percent(high)})"


def shares_picture(now: ComputationalVariance, later: ComputationalVariance, what: str) -> bytes:
    """The computational share at every sampled point, before and after more work, with the guaranteed range."""
    order, x = np.argsort(now.estimate), np.arange(len(now.estimate)) + 1
    figure, ((ax,),) = new_figure(1, 1, 8.0, 3.6)
    drawn = ((now, ORANGE, "s", -0.12, "now"), (later, BLUE, "o", 0.12, f"after {what}"))
    for shares, colour, marker, shift, label in drawn:
        low, middle, high = (100 * part[order] for part in (shares.lower, shares.estimate, shares.upper))
        error = np.maximum([middle - low, high - middle], 0)
        ax.errorbar(x + shift, middle, yerr=error, fmt=marker, markersize=4, color=colour, elinewidth=0.9, label=label)
    ax.set(xlabel="sampled point, sorted", ylabel="computational share of the variance [%]")
    top = ax.get_ylim()[1]
    ax.set_ylim(-0.02 * top, min(top, 102.0))
    figure.legend(loc="outside upper center", fontsize="small", ncols=2, frameon=False)
    return png(figure)
