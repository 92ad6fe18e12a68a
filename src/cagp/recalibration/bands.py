"""How large errors are compared with what the model promises: at a place, and at a distance from the data.

The size is an average of |z| over the nearest left-out observations, shrunk to that over a wider surrounding, and so
on, in the end to the average over all. The log score of the left-out observations decides how local the finest average
is, and how much it is shrunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..gram.neighbours import Search, search
from ..left_out import Geometry, LeftOut
from ..support.validation import count, positive, real
from .margins import saved_array
from .shape import KNOTS, scores_at, shape_of, spread_of

_NEIGHBOURS = 16
_LEVELS = 4
_SMALLEST = 64  # each wider surrounding has four times fewer points, all over the data, and at least so many
_POWER = 0.5  # square roots of |z| are averaged: a few huge errors do not decide about the size of all others
_STRENGTHS = (1.0, 4.0, 16.0)
_SAMPLE = 4_000  # so many left-out observations decide
_CLEARLY = 2.0  # a log score is clearly better by so many standard errors of the difference
_INFLUENCED = 16  # so many neighbours of an observation are predicted with it, mostly
_LOOKED_AT = 64  # neighbours among which those beyond a gap are sought; wider surroundings have the others
_BEYOND = 1.1  # who has fewer neighbours ends so many times as far away as the last of them
_SCALARS = ("distance", "finest", "strength", "spread")  # the fields of a band that are no arrays
_SMALLEST_SIZE = 1e-6  # error bars are not scaled to nothing, whatever the data say


@dataclass(frozen=True, eq=False)
class DistanceBand:
    """Left-out observations at about the same ``distance`` from the data: training points ``index`` (n,) and z (n,).

    ``finest`` is the first surrounding that is averaged over, a wider one counts for ``strength`` observations;
    ``values`` (J,) are the shape of z divided by the local size, ``spread`` its root mean square.
    """

    distance: float
    index: np.ndarray
    z: np.ndarray
    finest: int
    strength: float
    values: np.ndarray
    spread: float

    @classmethod
    def learned(cls, found: LeftOut, geometry: Geometry, seed: int) -> tuple[DistanceBand, float]:
        """From left-out predictions, at distances that may be put together; and the average log density of their z."""
        start = cls(float(np.median(found.distance)), found.index, found.z, 0, 1.0, np.empty(0), 1.0)
        some = np.sort(np.random.default_rng(seed).permutation(len(found))[:_SAMPLE])
        sizes = BandSizes(start, geometry, seed)
        # The left-out errors of its close neighbours have an observation's own noise in them, which those around a test
        # point have not: they would make the most local size look better than it is.
        near = sizes.around_training(some, sizes.apart(found, some))
        z = torch.from_numpy(found.z[some]).to(geometry.points.device)
        worth = found.some(some).worth
        best, chosen = None, (sizes.levels, 1.0)
        # from the simplest to the most local, which has to be clearly better
        for finest in range(sizes.levels, -1, -1):
            for strength in _STRENGTHS if finest < sizes.levels else _STRENGTHS[:1]:
                local = sizes.averaged(len(some), near[finest:], strength)
                found_shape = shape_of(z / local, worth)
                density = scores_at(found_shape, z / local)[1] - local.log()
                gain = density - (0.0 if best is None else best)
                if best is None or float(gain.mean()) > _CLEARLY * float(gain.std()) / worth**0.5:
                    best, values, chosen = density, found_shape, (finest, strength)
        assert best is not None
        finest, strength = chosen
        if finest < sizes.levels:
            closest = sizes.around_training(some, found.radius[some])
            values = shape_of(z / sizes.averaged(len(some), closest[finest:], strength), worth)
        band = replace(start, finest=finest, strength=strength, values=values.cpu().numpy(), spread=spread_of(values))
        return band, float(best.mean())

    @property
    def local(self) -> bool:
        """Whether the size of the errors differs from place to place."""
        return self.finest < _levels(len(self.z))

    def to_json(self, path: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """As plain JSON values; ``arrays`` is given the arrays, under the ``path`` of the band."""
        arrays |= {f"{path}.index": self.index, f"{path}.z": self.z, f"{path}.values": self.values}
        return {name: getattr(self, name) for name in _SCALARS}

    @classmethod
    def from_json(cls, content: Any, path: str, arrays: Mapping[str, np.ndarray], size: int) -> DistanceBand:
        """The same back, for a model of ``size`` observations; what no band can be is refused."""
        if not isinstance(content, dict) or set(content) != set(_SCALARS):
            raise InputError(f"{path} must have exactly the entries {', '.join(_SCALARS)}")
        index = saved_array(arrays, f"{path}.index", "int64")
        z, values = (saved_array(arrays, f"{path}.{name}", "float64") for name in ("z", "values"))
        finest = count(content["finest"], f"{path}.finest")
        if finest > _levels(len(z)):
            raise InputError(f"{path}.finest is {finest}, and {len(z)} values have {_levels(len(z))} surroundings")
        if len(index) != len(z) or not len(z) or index.min() < 0 or index.max() >= size:
            raise InputError(f"{path}.index must name one of the {size} observations for each value of z")
        if not np.isfinite(z).all():
            raise InputError(f"{path}.z must be finite")
        if values.shape != KNOTS.shape or not np.isfinite(values).all() or not (np.diff(values) > 0).all():
            raise InputError(f"{path}.values must be {len(KNOTS)} numbers that increase")
        strength, spread = (positive(content[name], f"{path}.{name}") for name in ("strength", "spread"))
        distance = real(content["distance"], f"{path}.distance")
        if distance < 0:
            raise InputError(f"{path}.distance must not be negative, got {distance:g}")
        return cls(distance, index, z, finest, strength, values, spread)


def _levels(n: int) -> int:
    """How many surroundings there are, each wider than the one before."""
    return sum(n >> (2 * level) >= _SMALLEST for level in range(_LEVELS))


class BandSizes:
    """The sizes of the errors of a band around any place. ``levels`` says how many surroundings there are."""

    def __init__(self, band: DistanceBand, geometry: Geometry, seed: int) -> None:
        self._band, self._geometry = band, geometry
        device = geometry.points.device
        self._rows = torch.from_numpy(band.index).to(device)
        self._sizes = torch.from_numpy(np.abs(band.z) ** _POWER).to(device)
        self._order = torch.randperm(len(band.z), generator=torch.Generator().manual_seed(seed)).to(device)
        self.levels = _levels(len(band.z))
        self._searches: dict[int, Search] = {}

    def _members(self, level: int) -> torch.Tensor:
        """The observations that the surroundings of a level are made of: every fourth of those of the one before."""
        return self._order[: len(self._order) >> (2 * level)]

    def around(self, places: torch.Tensor) -> torch.Tensor:
        """The size of the errors at ``places`` (T, q) in the coordinates of the geometry, shape (T,)."""
        near = []
        for level in range(self._band.finest, self.levels):
            members = self._members(level)
            if level not in self._searches:
                self._searches[level] = search(self._geometry.points[self._rows[members]])
            found = members[self._searches[level].query(places, min(_NEIGHBOURS + 1, len(members)))]
            apart = (self._geometry.points[self._rows[found]] - places[:, None]).norm(dim=2)
            near.append((found, apart))
        return self.averaged(len(places), near, self._band.strength)

    def apart(self, found: LeftOut, some: np.ndarray) -> np.ndarray:
        """Who is further than this from each of ``some`` (m,) of those left out was not predicted with it, mostly."""
        rows = self._rows[torch.from_numpy(some).to(self._rows.device)]
        return np.maximum(found.radius[some], self._geometry.reach(rows, _INFLUENCED).cpu().numpy())

    def around_training(self, some: np.ndarray, radius: np.ndarray) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """For each level the neighbours of ``some`` (m,) that are further away than ``radius`` (m,), in wider ones."""
        rows = self._rows[torch.from_numpy(some).to(self._rows.device)]
        own, least = self._geometry.points[rows], torch.from_numpy(radius).to(self._sizes.device)
        near = []
        for level in range(self.levels):
            members = self._members(level)
            points = self._geometry.points[self._rows[members]]
            asked = search(points).query(own, min(_LOOKED_AT, len(members)))
            away = (points[asked] - own[:, None]).norm(dim=2)
            outside = (away >= least[:, None]) & (self._rows[members[asked]] != rows[:, None])
            order = (~outside).to(torch.uint8).argsort(dim=1, stable=True)[:, : _NEIGHBOURS + 1]
            outside, away, asked = (each.gather(1, order) for each in (outside, away, asked))
            near.append((members[asked].masked_fill(~outside, -1), away.masked_fill(~outside, torch.inf)))
        return near

    def averaged(self, n: int, near: list[tuple[torch.Tensor, torch.Tensor]], strength: float) -> torch.Tensor:
        """The sizes at n places, given the neighbours of each and how far they are, widest surrounding last."""
        size = self._sizes.mean().expand(n)
        for found, apart in reversed(near):
            # a point at the edge of the surrounding has no weight, so that sizes do not jump
            known = apart.masked_fill(found < 0, 0.0).amax(dim=1, keepdim=True)
            edge = torch.where(found[:, -1:] < 0, known * _BEYOND, known).clamp_min(torch.finfo(apart.dtype).tiny)
            weight = (1 - (apart / edge).square()).masked_fill(found < 0, 0.0).to(size.dtype)
            total = (weight * self._sizes[found.clamp_min(0)]).sum(dim=1)
            size = (total + strength * size) / (weight.sum(dim=1) + strength)
        return (size ** (1 / _POWER)).clamp_min(_SMALLEST_SIZE)
