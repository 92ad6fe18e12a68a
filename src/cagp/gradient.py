"""Slopes of f: mean and covariance of its partial derivatives, from kriging weights for ∂k(x, X)/∂x.

They are as exact about their own error as predictions: weights that do not depend on y have the error covariance C(W),
as for any other functional of f. What left-out errors of values say about error bars has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from .errors import InputError
from .gram import Cross
from .kernels.radial import Radial
from .posterior import Posterior, solve_each, stacked
from .predicting.conditioned import Conditioned
from .predicting.memory_plan import MemoryPlan
from .predicting.status import joint_status
from .prediction import Guarantee, Prediction
from .support.convert import Output
from .support.validation import ArrayLike, as_float64

_AT_ONCE = 2**25  # covariances of training points that are in memory together, at most
_COPIES = 4  # of these: what is lent, what computes it, and its lower triangle


class SlopePosterior(Posterior):
    """The belief of one prior about T p slopes; ``within`` (T, p, p) is their prior covariance at each point."""

    within: torch.Tensor

    def at_each_point(self) -> torch.Tensor:
        """The covariance of the slopes at each point, shape (T, p, p)."""
        cross, weights = self._single()
        T, p = self.within.shape[:2]
        if weights.is_sparse and weights.indices is not None:
            # the slopes at a point have the same neighbours; what fills up a row of them has no weight
            values, members = weights.values.view(T, p, -1), weights.indices.expand(weights.values.shape)
            found = self._sparse(cross, values, members.view(T, p, -1).amax(dim=1))
        else:
            MemoryPlan([self._component]).require_dense_weights(T * p)
            W = weights.dense()
            residual = (cross.matrix - cross.gram.matmul(W)).view(T, p, -1)
            W, V = W.view(T, p, -1), cross.matrix.view(T, p, -1)
            found = self.within - V @ W.mT - W @ residual.mT
        C = (found + found.mT).double() / 2
        C.diagonal(dim1=1, dim2=2).copy_(self._variances.view(T, p))
        return C

    def _sparse(self, cross: Cross, values: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
        """C(W) of weights (T, p, k) on ``members`` (T, k), so many points at a time."""
        (T, p, k), found = values.shape, []
        rows = torch.arange(T * p, device=values.device).view(T, p)
        most = min(_AT_ONCE, self.working_budget // (_COPIES * values.itemsize))
        step = max(1, most // max(1, k * k))
        for some in (slice(i, i + step) for i in range(0, T, step)):
            w = values[some]
            with cross.systems(rows[some], members[some]) as (G, V):
                below, both = w @ G.tril(-1) @ w.mT, V @ w.mT
                square = below + below.mT + (w * G.diagonal(dim1=1, dim2=2)[:, None]) @ w.mT
                found.append(self.within[some] - both - both.mT + square)
        return torch.cat(found)


class Gradient(Prediction):
    """The slopes of f at T points with p columns; made by ``Model.gradient``.

    ``mean``, ``variance`` and ``std`` have shape (T, p), in units of f for one unit of the column; so have intervals,
    quantiles (T, p, n for several), and ``exceedance(0.0)``, the probability that f rises along the column.
    """

    def __init__(
        self, parts: Sequence[SlopePosterior], weights: ArrayLike, guarantee: Guarantee, convert: Output
    ) -> None:
        """From the ``parts``, one of each component, and the ``weights`` (m,) of these."""
        self._points, self._columns = parts[0].within.shape[:2]
        status = joint_status([part.status for part in parts])
        how: dict[str, Any] = {"status": status, "guarantee": guarantee, "components": parts}
        super().__init__(*stacked(parts), weights, new_noise=None, convert=convert, **how)

    def __len__(self) -> int:
        return self._points

    def _each(self, tensor: torch.Tensor) -> Any:
        return super()._each(tensor.unflatten(0, (self._points, self._columns)))

    def covariance(self) -> Any:
        """The covariance between the slopes along different columns at each point, shape (T, p, p)."""
        total = torch.zeros(self._points, self._columns, self._columns, dtype=torch.float64, device=self._means.device)
        means = self._means.view(-1, self._points, self._columns)
        away = means - self.mixture.mean.view(self._points, self._columns)
        for weight, part, own in zip(self.component_weights, self.components, away, strict=True):
            assert isinstance(part, SlopePosterior)
            total += float(weight) * (part.at_each_point() + own[:, :, None] * own[:, None, :])
        return self._convert(total.to(self._dtype))

    def _scores(self, values: ArrayLike, name: str = "values") -> tuple[torch.Tensor, torch.Tensor]:
        given = as_float64(values, name, self._means.device)
        shape = (self._points, self._columns)
        if given.ndim and given.shape != shape:
            raise InputError(f"{name} has shape {tuple(given.shape)}; give one for each slope, {shape}, or one")
        return super()._scores(given.flatten() if given.ndim else given, name)

    def observed(self, noise_variance: Any = None) -> NoReturn:
        raise InputError("noise has no slope, so there are no observed ones; the error bars are about those of f")

    def sample(self, n: int = 1, seed: int = 0) -> NoReturn:
        raise InputError(
            "joint draws of slopes are not offered: mean and covariance() describe those at a point; for whole fields "
            "take differences of model.simulate(...)"
        )


def require_slopes(components: Sequence[Conditioned], transform: Any, quantity: int | None) -> None:
    """Refuse a model that has no slopes, with all reasons, and with the remedy for all of them together."""
    parts = (part.kernel for each in components for part in each.prior.kernel.walk())
    rough = next((each for each in parts if isinstance(each, Radial) and each.kinked), None)
    reasons = {
        "it is about one of several quantities, which are modelled together": quantity is not None,
        f"{rough!r} has a kink at distance zero, so that its functions have no slope anywhere": rough is not None,
        "its trend was learned by a regressor": any(each.prior.mean.learned for each in components),
    }
    found, remedy = [why for why, holds in reasons.items() if holds], "take model.replace(transform=None).gradient(X)"
    if found:
        again = "P, Y, together=False" if quantity is not None else "X, y"
        differences = "take differences over some distance, model.average(X, [1, -1]), or " * (rough is not None)
        remedy = f"{differences}fit one that has them: cagp.fit({again}, kernel='matern32', transform=None)"
    if transform is not None:
        found.append("its observations are transformed, and slopes are those of f, on the scale that was modelled")
    if found:
        raise InputError(f"this model has no slopes: {'; '.join(found)}. {remedy[0].upper()}{remedy[1:]}")


def solve_slopes(
    components: Sequence[Conditioned], test: torch.Tensor, convert: Output, **settings: Any
) -> list[SlopePosterior]:
    """The posteriors of the slopes of f at test points (T, p); ``settings`` as for ``solve_each``."""
    seen, offsets, within = [], [], []
    for each in components:
        component, _, expected = each.ready_for(test)
        cross, offset, prior = component.slopes(test)
        seen.append((component, cross, expected))
        offsets.append(offset)
        within.append(prior)
    found = []
    for (component, solved, status), prior in zip(solve_each(seen, offsets, **settings), within, strict=True):
        status = status.noting(f" Slopes along {test.shape[1]} columns at {len(test):,} points.")
        found.append(SlopePosterior(component, solved, convert, status, test))
        found[-1].within = prior
    return found
