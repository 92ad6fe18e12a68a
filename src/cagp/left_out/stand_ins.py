"""Training observations that stand in for points to be predicted: what is missing around one is missing around them.

A point t is predicted from its neighbours, at offsets from it. An observation i stands in for t when it is predicted
from the counterparts of those neighbours alone: the training points nearest to i plus each offset. A cloud around t is
then one around i, and so is a line without observations, a future, a corner, a coast. Of several i the one is kept
whose promised error bar is closest to that at t. Where a neighbour of t can stand in by being left out alone, because t
lies among the data as they do themselves, that is better: nothing around it is missing.

Nothing here looks at y, so under the prior the errors of stand-ins have exactly the variances that are promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from ..gram import Cross
from ..gram.neighbours import search
from ..predicting.conditioned import Conditioned
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from .geometry import Geometry

_ALONE, _MOVED = 4, 12  # so many observations are tried for each point: left out alone, and with counterparts
_LOOKED_AT, _GLANCED_AT = 64, 6  # those of so many around which most of so many neighbours have a counterpart
_CLOSE, _USABLE = 2 * math.log(1.025), 2 * math.log(1.2)  # of variances: as good as the same, and good enough
_AROUND = 8  # who is left out alone is one of so many neighbours of a point
_SUBSET, _NEAR = 4096, 128  # of so many training points so many are near a point, where the field is alike
_ASIDE = 0.5  # a counterpart is no further from where it should be than this part of the offset
_INSIDE = 0.8  # and no nearer than this part of how far the nearest neighbour of the point is
_ENOUGH, _ENOUGH_AROUND = 0.7, 0.3  # the share of neighbours that need a counterpart; around a gap on any side
_GAPS, _EACH = 100, 25  # so many whole gaps are left out, at so many points each
_MOST = 0.5  # the share of these that have an observation where they would be
_PROBED, _PROMISING = 64, 0.05  # where of so many points a smaller share has counterparts, no others are tried


@dataclass(frozen=True)
class StandIns:
    """Training points ``rows`` (n,), each predicted from ``members`` (n, m) alone, −1 for none.

    ``promised`` (n,) are their standard deviations, noise included, and ``wanted`` (points,) those at the points that
    are to be predicted; ``missing`` is the share of these for which nobody stands in; ``how`` says it in sentences.
    ``number`` (n,) tells stand-ins from each other: a row may stand in for several points.
    """

    rows: torch.Tensor
    members: torch.Tensor
    number: np.ndarray
    promised: np.ndarray
    wanted: np.ndarray
    missing: float
    how: str

    def __len__(self) -> int:
        return len(self.number)

    def some(self, chosen: np.ndarray) -> StandIns:
        """Those at the places ``chosen``: a mask (n,) or indices."""
        at = torch.from_numpy(chosen).to(self.rows.device)
        arrays = {"promised": self.promised[chosen], "number": self.number[chosen]}
        return replace(self, rows=self.rows[at], members=self.members[at], **arrays)


class Matching:
    """What finds stand-ins for a ``component`` whose neighbours are those of ``prepared``."""

    def __init__(self, component: Conditioned, prepared: PreparedNearestNeighbours) -> None:
        self._component, self._prepared, self._geometry = component, prepared, Geometry(component)
        self._noise = component.gram.noise.double()

    def stand_ins(self, test: torch.Tensor, n: int, seed: int) -> StandIns:
        """For n of ``test`` (T, p), drawn at random; several for each where there are fewer."""
        draws = torch.Generator().manual_seed(seed)
        chosen = torch.cat([torch.randperm(len(test), generator=draws) for _ in range(-(-n // len(test)))])[:n]
        test = test[chosen.sort().values.to(test.device)]
        at, component = self._geometry.coordinates(test), self._component
        around = self._prepared.members(partial(self._geometry.nearest, at))
        noise = component.prior.new_noise(test)
        typical = self._noise.median() if noise is None else torch.as_tensor(noise).to(self._noise)
        wanted = self._variance(component.cross(test), around) + typical
        best = _Best(wanted, around.shape[1])
        alone = best.fresh()
        for _ in range(_ALONE):
            todo = (alone.gap > _CLOSE).nonzero()[:, 0]
            pick = torch.randint(min(_AROUND, around.shape[1]), (len(todo),), generator=draws).to(test.device)
            rows = around[todo, pick]
            known = rows >= 0
            self._offer(alone, todo[known], rows[known], self._alone(rows[known]), alone=True)
        best.take(alone, alone.gap <= _CLOSE)
        missing_around = (best.gap > _CLOSE).nonzero()[:, 0]
        self._move(best, missing_around, at, around, draws)
        best.take(alone, (best.gap > _USABLE) & (alone.gap <= _USABLE))
        self._by_error_bar(best, alone, draws)
        good = (best.gap <= _USABLE).cpu().numpy()
        promised, std = (each.sqrt().cpu().numpy() for each in (best.variance, wanted))
        how = _in_words(best, good)
        number, missing = np.arange(len(good)), 1.0 - float(good.mean())
        return StandIns(best.rows, best.members, number, promised, std, missing, how).some(good)

    def beyond(self, rows: torch.Tensor, width: torch.Tensor) -> StandIns:
        """Training points ``rows`` (n,) without what is nearer than about ``width`` (n,), from counterparts of their
        own neighbours, each as much further away.
        """
        own = self._geometry.points[rows]
        around = self._alone(rows)
        offsets = self._geometry.points[around] - own[:, None]
        size = offsets.norm(dim=2, keepdim=True)
        offsets = offsets * (1 + width[:, None, None] / size.clamp_min(torch.finfo(size.dtype).tiny))
        offsets = offsets.masked_fill((around < 0)[:, :, None] | (size == 0), torch.nan)
        members, share = self._counterparts(rows, offsets, width)
        rows, members = rows[share >= _ENOUGH_AROUND], members[share >= _ENOUGH_AROUND]
        return self._standing_in(rows, members, "were left out with all that is nearer to them than some distance")

    def _standing_in(self, rows: torch.Tensor, members: torch.Tensor, how: str) -> StandIns:
        """Training points ``rows`` (n,) where ``members`` (n, m) determine their variance: so many, and ``how``."""
        variance = self._noise[rows]
        if len(rows):
            variance = variance + self._variance(self._component.cross(self._component.X[rows]), members)
        promised = variance.sqrt().cpu().numpy()
        known = np.isfinite(promised)
        how = f"{known.sum():,} {how}."
        return StandIns(rows, members, np.arange(len(rows)), promised, promised, 0.0, how).some(known)

    def whole(self, test: torch.Tensor, gaps: np.ndarray, seed: int) -> tuple[StandIns, np.ndarray]:
        """Whole ones of the ``gaps`` (T,) of ``test`` (T, p), drawn as often as they have points, left out elsewhere.

        An observation stands in for the deepest point of a gap, and those nearest to where other points of it would be
        for these. With the number of the gap left out that each stand-in is from, (n,).
        """
        draws, device = np.random.default_rng(seed), test.device
        at, depth = self._geometry.coordinates(test), self._geometry.distance(test)
        rows, parts = [torch.empty(0, dtype=torch.int64, device=device)], [np.empty(0, dtype=np.int64)]
        members = [torch.empty(0, self._prepared.members_each, dtype=torch.int64, device=device)]
        for part, one in enumerate(draws.integers(len(test), size=_GAPS)):
            points = torch.from_numpy(draws.permutation(np.flatnonzero(gaps == gaps[one]))).to(device)
            points = torch.cat([points[depth[points].argmax()][None], points])[:_EACH]
            own = self._elsewhere(at[points], depth[points], draws)
            points, own = points[own >= 0], own[own >= 0]
            if not len(own):
                continue
            around = self._prepared.members(partial(self._geometry.nearest, at[points]))
            offsets = self._geometry.points[around] - at[points, None]
            offsets = offsets.masked_fill((around < 0)[:, :, None], torch.nan)
            moved = self._geometry.moved(offsets, at[points], self._geometry.points[own])
            found, share = self._counterparts(own, moved)
            rows.append(own[share >= _ENOUGH])
            members.append(found.masked_fill(torch.isin(found, own), -1)[share >= _ENOUGH])
            parts.append(np.full(len(rows[-1]), part))
        stand_ins = self._standing_in(torch.cat(rows), torch.cat(members), "stand in for points of whole gaps")
        return stand_ins, np.concatenate(parts)[stand_ins.number]

    def _elsewhere(self, at: torch.Tensor, depth: torch.Tensor, draws: np.random.Generator) -> torch.Tensor:
        """The observations nearest to where points ``at`` (m, q), the first at another observation, would be, or −1:
        (m,); where most have one, if that is anywhere.
        """
        points, aside = self._geometry.points, (_ASIDE * depth).clamp_min(self._geometry.spacing)
        near = self._geometry.search.query(at[:1], min(_SUBSET, len(points)))[0]
        few = [torch.from_numpy(draws.choice(n, _LOOKED_AT // 2)).to(at.device) for n in (len(near), len(points))]
        starts = points[torch.cat([near[few[0]], few[1]])]
        n = len(starts)
        place = starts[:, None] + self._geometry.moved((at - at[0]).expand(n, -1, -1), at[:1].expand(n, -1), starts)
        found = self._geometry.search.query(place.flatten(0, 1), 1).unflatten(0, place.shape[:2])[..., 0]
        found = found.masked_fill((points[found] - place).norm(dim=2) > aside, -1)
        possible = ((found >= 0).double().mean(dim=1) >= _MOST).nonzero()[:, 0].cpu().numpy()
        if not len(possible):
            return torch.full_like(found[0], -1)
        one = found[int(draws.choice(possible))]
        first = np.unique(one.cpu().numpy(), return_index=True)[1]
        return one.masked_fill(~torch.isin(torch.arange(len(one), device=one.device), torch.from_numpy(first)), -1)

    def _alone(self, rows: torch.Tensor) -> torch.Tensor:
        """The neighbours of training points ``rows`` (n,), but themselves."""
        return self._prepared.members(partial(self._geometry.others, rows))

    def _variance(self, cross: Cross, members: torch.Tensor) -> torch.Tensor:
        """The variances of f that ``members`` (n, m) leave, shape (n,); NaN where they determine none."""
        nobody = members.new_full((len(members), len(self._prepared.anchors)), -1)
        variance = (cross.prior_variance() - self._prepared.weights_on(cross, members, nobody).reduction).double()
        return torch.where(variance.isfinite() & (variance > 0), variance, torch.nan)

    def _offer(self, best: _Best, which: torch.Tensor, rows: torch.Tensor, members: torch.Tensor, alone: bool) -> None:
        """Let ``rows`` (m,), predicted from ``members``, stand in for points ``which`` (m,) where they do better."""
        if len(which):
            cross = self._component.cross(self._component.X[rows])
            best.offer(which, rows, members, self._variance(cross, members) + self._noise[rows], alone)

    def _move(
        self, best: _Best, todo: torch.Tensor, at: torch.Tensor, around: torch.Tensor, draws: torch.Generator
    ) -> None:
        """Stand-ins for the points ``todo`` (m,) from the counterparts of their neighbours.

        Of many observations those are tried around which a few of the neighbours have counterparts.
        """
        if not len(todo):
            return
        points, device = self._geometry.points, at.device
        known = torch.randperm(len(points), generator=draws)[:_SUBSET].to(device)
        near = known[search(points[known]).query(at[todo], min(_NEAR, len(known)))]
        pick = torch.randint(near.shape[1], (len(todo), _LOOKED_AT // 2), generator=draws).to(device)
        anywhere = torch.randint(len(known), (len(todo), _LOOKED_AT // 2), generator=draws).to(device)
        rows = torch.stack([near.gather(1, pick), known[anywhere]], dim=2).flatten(1)
        offsets = (points[around[todo]] - at[todo, None]).masked_fill((around[todo] < 0)[:, :, None], torch.nan)
        few = torch.linspace(0, offsets.shape[1] - 1, min(_GLANCED_AT, offsets.shape[1])).long().to(device)
        probed = torch.randperm(len(todo), generator=draws)[:_PROBED].to(device)
        hope = self._promising(rows[probed], offsets[probed][:, few], at[todo[probed]]).amax(dim=1) >= _ENOUGH
        if float(hope.double().mean()) < _PROMISING:
            return
        share = self._promising(rows, offsets[:, few], at[todo])
        hopeful, order = (share >= _ENOUGH).sort(dim=1, descending=True, stable=True)
        rows = rows.gather(1, order)
        for attempt in range(_MOVED):
            some = ((best.gap[todo] > _CLOSE) & hopeful[:, attempt]).nonzero()[:, 0]
            if not len(some):
                return
            own = rows[some, attempt]
            found, enough = self._counterparts(own, self._geometry.moved(offsets[some], at[todo[some]], points[own]))
            good = enough >= _ENOUGH
            self._offer(best, todo[some[good]], own[good], found[good], alone=False)

    def _promising(self, rows: torch.Tensor, offsets: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The share of ``offsets`` (n, k, q) from ``at`` (n, q) with counterparts around ``rows`` (n, m), (n, m)."""
        shares = []
        for each in rows.T.split(1):
            moved = self._geometry.moved(offsets, at, self._geometry.points[each[0]])
            shares.append(self._counterparts(each[0], moved)[1])
        return torch.stack(shares, dim=1)

    def _counterparts(
        self, rows: torch.Tensor, offsets: torch.Tensor, void: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """For ``rows`` (n,) the training points at ``offsets`` (n, k, q), NaN for none, or −1; and how many have one, a
        share (n,). Nothing is nearer than the ``void`` (n,), by default the nearest of the offsets.
        """
        points = self._geometry.points
        own, wanted, length = points[rows], offsets[:, :, 0].isfinite(), offsets.norm(dim=2)
        void = length.nan_to_num(torch.inf).amin(dim=1) if void is None else void
        place = own[:, None] + torch.where(wanted[:, :, None], offsets, 0.0)
        near = self._geometry.search.query(place.flatten(0, 1), min(3, len(points))).unflatten(0, place.shape[:2])
        aside, away = (points[near] - place[:, :, None]).norm(dim=3), (points[near] - own[:, None, None]).norm(dim=3)
        fits = wanted[..., None] & (aside <= _ASIDE * length[..., None]) & (away >= _INSIDE * void[:, None, None])
        fits &= near != rows[:, None, None]
        found = near.masked_fill(~fits, -1).permute(0, 2, 1).flatten(1)
        # nobody twice: of those who are the same the first stays, and a place goes to the next one who is there
        ranked, order = found.sort(dim=1, stable=True)
        again = torch.nn.functional.pad(ranked[:, 1:] == ranked[:, :-1], (1, 0))
        found = found.masked_fill(torch.zeros_like(again).scatter(1, order, again), -1)
        first = (found >= 0).unflatten(1, (-1, offsets.shape[1])).to(torch.uint8).argmax(dim=1)
        found = found.unflatten(1, (-1, offsets.shape[1])).gather(1, first[:, None])[:, 0]
        return found, fits.any(dim=2).sum(dim=1) / wanted.sum(dim=1).clamp_min(1)

    def _by_error_bar(self, best: _Best, alone: _Best, draws: torch.Generator) -> None:
        """For points without a stand-in one of any place, left out alone, whose error bar is about the same."""
        known = alone.variance.isfinite().nonzero()[:, 0]
        todo = (best.gap > _USABLE).nonzero()[:, 0]
        ranked, order = alone.variance[known].sort()
        low, high = (torch.searchsorted(ranked, best.wanted[todo] * math.exp(end)) for end in (-_USABLE, _USABLE))
        chance = torch.rand(len(todo), generator=draws).to(ranked)
        several = (high > low).nonzero()[:, 0]
        one = known[order[(low + (chance * (high - low)).long())[several]]]
        best.offer(todo[several], alone.rows[one], alone.members[one], alone.variance[one], alone=True)


class _Best:
    """The best stand-in so far for each of n points with variances ``wanted`` (n,), from ``m`` members."""

    def __init__(self, wanted: torch.Tensor, m: int) -> None:
        n = len(wanted)
        self.wanted, self._m = wanted, m
        self.rows, self.members = (torch.full(shape, -1, device=wanted.device) for shape in ((n,), (n, m)))
        self.variance, self.gap = torch.full_like(wanted, torch.nan), torch.full_like(wanted, torch.inf)
        self.alone = torch.zeros(n, dtype=torch.bool, device=wanted.device)

    def fresh(self) -> _Best:
        """Another one for the same points."""
        return _Best(self.wanted, self._m)

    def offer(
        self, which: torch.Tensor, rows: torch.Tensor, members: torch.Tensor, variance: torch.Tensor, alone: bool
    ) -> None:
        """Stand-ins for the points ``which`` (m,), taken where they promise what is more alike."""
        gap = (variance / self.wanted[which]).log().abs().nan_to_num(torch.inf)
        better = gap < self.gap[which]
        which = which[better]
        self.rows[which], self.members[which] = rows[better], members[better]
        self.variance[which], self.gap[which], self.alone[which] = variance[better], gap[better], alone

    def take(self, other: _Best, chosen: torch.Tensor) -> None:
        """Those of another one at the points ``chosen``, a mask (n,)."""
        for name in ("rows", "members", "variance", "gap", "alone"):
            getattr(self, name)[chosen] = getattr(other, name)[chosen]


def _in_words(best: _Best, good: np.ndarray) -> str:
    """How the ``best`` stand-ins, those that are ``good`` (n,), are like their points, on any scale."""
    rows, alone, found, wanted = (each.cpu().numpy() for each in (best.rows, best.alone, best.variance, best.wanted))
    if not good.any():
        return "No observation stands in for points to be predicted."
    low, half, high = (f"{each:.3g}" for each in np.quantile(np.sqrt(found[good] / wanted[good]), (0.1, 0.5, 0.9)))
    return (
        f"{good.sum():,} times one of {len(np.unique(rows[good])):,} observations stands in for a point to be "
        "predicted: it was predicted from the counterparts of the point's neighbours alone, so that what is missing "
        f"around the point is missing around it, or, where nothing is missing ({alone[good].mean():.0%}), from all its "
        f"neighbours. In 10, 50 and 90% of cases its promised standard deviation is at most {low}, {half} and {high} "
        "times that of the point."
    )
