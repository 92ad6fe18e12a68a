"""Where to measure next: the candidates that lower the average variance over a region most, one after another.

For the weights W at hand the errors at r and c have the covariance C(r, c), exactly. What an observation at c says
beyond its prediction has the variance C(c, c) + noise, and corrects the prediction at r by its covariance with it. This
takes C(r, c)² / (C(c, c) + noise) off the variance at r and leaves C − C(·, c) C(c, ·) / (C(c, c) + noise). No
observation is looked at, so that what is promised is what one will get, whatever is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .errors import InputError
from .gram.neighbours import spatial_blocks
from .posterior import Posterior
from .predicting.status import Status, joint_status
from .prediction import Guarantee
from .support.convert import Output
from .support.memory import require
from .support.validation import ArrayLike, as_float64

_BLOCK = 8  # places of the region whose covariances with candidates are computed together
_VALUES = 5e8  # covariances from which on places of the region look at the candidates nearest to them only
_FEWEST = 100  # candidates that each of them looks at then
_TIED = 1e-9  # part of the largest gain that others may lack and count as equal


@dataclass(frozen=True, eq=False)
class Design:
    """Where to measure next; made by ``Model.where_next``.

    ``chosen`` (n,) are rows of the candidates, the best first. ``average_variance`` (n + 1,) is that of f over the
    region, before and after each of them, and ``variance`` (T,) that at each place of the region after all. Both are
    promised whatever is measured: they are exact for the weights of the model, each corrected by what is new. With
    ``status`` and ``guarantee`` as predictions have them.
    """

    chosen: np.ndarray
    average_variance: np.ndarray
    variance: Any
    status: Status
    guarantee: Guarantee

    def __repr__(self) -> str:
        before, after = self.average_variance[[0, -1]]
        return f"Design({len(self.chosen)} chosen, average variance {before:.3g} → {after:.3g})"


def each_of(values: ArrayLike | None, size: int, name: str, of: str, zero: bool) -> torch.Tensor:
    """Finite numbers, one for each of ``size`` places, ones where there are none; positive, or ``zero`` as well."""
    given = torch.ones(size, dtype=torch.float64) if values is None else as_float64(values, name).cpu()
    if given.shape != (size,):
        raise InputError(f"{name} has shape {tuple(given.shape)} for {size} {of}; give one for each")
    if not bool((given >= 0).all() if zero else (given > 0).all()) or not float(given.sum()) > 0:
        least = "must not be negative, nor all of them zero" if zero else "must be positive"
        raise InputError(f"{name} {least}, got {float(given.min()):g} at index {int(given.argmin())}")
    return given


class _Errors:
    """The covariances between the errors of one component, in the region and at candidates, as places are chosen.

    ``posterior`` is that at all of the places: those of the ``region`` and the ``candidates`` are slices of them.
    """

    def __init__(
        self, posterior: Posterior, region: slice, candidates: slice, noise: torch.Tensor, weights: torch.Tensor
    ) -> None:
        self._posterior, self._region, self._candidates = posterior, region, candidates
        variances = posterior.variances_tensor
        self.variance, self._own = variances[region].clone(), variances[candidates].clone()
        self._rounding = 4 * torch.finfo(variances.dtype).eps * self._own
        self._noise = noise.to(variances).expand(len(self._own))
        self._steps = variances.new_zeros(len(variances), 0)  # what each of those chosen says at all places
        self.near = len(self._own)
        self._between = self._covariances(weights.to(variances))
        self._unseen = self._between == 0 if self.near < len(self._own) else None

    def _covariances(self, weights: torch.Tensor) -> torch.Tensor:
        """C (T, candidates); zero where a place and a candidate are too far from each other to be looked at."""
        W, places = self._posterior.sparse_weights, self._posterior.search_coordinates
        if W is None:
            return self._posterior.error_covariance(self._region, self._candidates)
        device, first, number = self._own.device, self._region.start, len(self._own)
        order = torch.arange(len(weights)) if places is None else spatial_blocks(places[self._region], _BLOCK, None)
        blocks = [block.to(device) for block in order.split(_BLOCK)]
        used = sum(len(np.unique(W[(first + block).cpu().numpy()].indices)) for block in blocks)
        share = _VALUES / max(1, used * (number + len(np.unique(W[self._candidates].indices))))
        # most for those blocks whose variance is most of all: in gaps errors have much in common, and far
        parts = torch.stack([(weights * self.variance)[block].sum() for block in blocks])
        looked_at = (share * number * len(blocks) * parts / parts.sum()).clamp(min(_FEWEST, number), number).long()
        found = torch.zeros(len(weights), number, dtype=torch.float64, device=device)
        for block, near in zip(blocks, looked_at.tolist(), strict=True):
            rows, columns = first + block, torch.arange(number, device=device)
            if share < 1 and near < number and places is not None:
                away = places[self._candidates] - places[rows].mean(dim=0)
                columns = away.square().sum(dim=1).topk(near, largest=False).indices.sort().values
                self.near = min(self.near, near)
            found[block[:, None], columns] = self._posterior.error_covariance(rows, self._candidates.start + columns)
        return found

    def gains(self, weights: torch.Tensor) -> torch.Tensor:
        """How much an observation at each candidate takes off the variance in the region, by ``weights`` (T,)."""
        return torch.where(self._known, 0.0, weights @ self._between.square() / (self._own + self._noise))

    @property
    def _known(self) -> torch.Tensor:
        """Where nothing but rounding is left to learn, as at a place that was measured without noise."""
        return self._own <= self._rounding

    def observe(self, chosen: int) -> None:
        """Take an observation at a candidate into account; its covariances are computed with all places."""
        at, steps = self._candidates.start + chosen, self._steps
        row = torch.tensor([at], device=steps.device)
        column = self._posterior.error_covariance(row, slice(0, len(steps)))[0] - steps @ steps[at]
        step = column / (self._own[chosen] + self._noise[chosen]).sqrt()
        step = step.zero_() if bool(self._known[chosen]) else step
        here, there = step[self._region], step[self._candidates]
        self.variance = (self.variance - here.square()).clamp_min(0)
        self._own -= there.square()
        self._between.addr_(here, there, alpha=-1)
        if self._unseen is not None:  # what was not looked at stays zero: its changes alone would be no covariance
            self._between.masked_fill_(self._unseen, 0.0)
        self._steps = torch.cat([steps, step[:, None]], dim=1)


def choose(
    found: Sequence[Posterior],
    shares: np.ndarray,
    region: slice,
    candidates: slice,
    noises: Sequence[torch.Tensor],
    weights: torch.Tensor,
    costs: torch.Tensor,
    n: int,
    guarantee: Guarantee,
    convert: Output,
) -> Design:
    """The best ``n`` candidates, one after another.

    ``found`` are the posteriors of components with their ``shares`` (m,) at all places, ``noises`` those of new
    observations there, ``weights`` (T,) those of places, which add up to one, and ``costs`` those of candidates.
    """
    pairs, places = len(weights) * len(costs), len(weights) + len(costs)
    what, remedy = f"covariances of {len(weights):,} places with {len(costs):,} candidates", "give fewer of either"
    require(8 * ((len(found) + 1) * pairs + n * places), found[0].working_budget, what, remedy)
    errors = [_Errors(each, region, candidates, noise, weights) for each, noise in zip(found, noises, strict=True)]
    weights, costs = (each.to(errors[0].variance) for each in (weights, costs))

    def together(each: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.from_numpy(shares).to(weights) @ torch.stack(list(each))

    chosen: list[int] = []
    averages = [float(weights @ together([each.variance for each in errors]))]
    for _ in range(n):
        gains = together([each.gains(weights) for each in errors]) / costs
        gains[chosen] = -1.0
        best = int((gains >= float(gains.max()) * (1 - _TIED)).nonzero()[0, 0])
        for each in errors:
            each.observe(best)
        chosen.append(best)
        averages.append(float(weights @ together([each.variance for each in errors])))
    status, near = joint_status([each.status for each in found]), min(each.near for each in errors)
    if near < len(costs):
        status = status.noting(f" Places of the region looked at the candidates nearest to them, {near:,} at least.")
    variance = together([each.variance for each in errors])
    return Design(np.array(chosen), np.array(averages), convert(variance), status, guarantee)
