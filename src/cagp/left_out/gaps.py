"""Points to be predicted lie in gaps, and one gap is one draw: what is wrong at one of its points is wrong at others.

Around each point is a ball without data. In the gap of the point that is furthest from the data are those whose balls
touch its ball, and who else is in a gap within twice its distance from the data: so far errors were found to go
together. A gap that is much longer than wide, a future or a coast, is several. Points that lie among the data as close
as these lie to each other are gaps of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree

from .geometry import Geometry
from .result import LeftOut

NEAR = 1.5
"""Points that are at most so many times the usual spacing from the data are like single observations left out."""

MANY = 10
"""So many points of a gap, and so many gaps, are needed to say how coverage differs from gap to gap."""

_COORDINATES = 3  # of many, where everything lies at about the same distance, such a ball holds far more than a gap
_COMPANY, _FEWEST = 2.0, 4.0  # in smaller gaps each point is one draw; fewer gaps say nothing about others


@dataclass(frozen=True, eq=False)
class Gaps:
    """The ``number`` (n,) of the gap that each of n points lies in."""

    number: np.ndarray

    @classmethod
    def of_points(cls, geometry: Geometry, test: torch.Tensor) -> Gaps:
        """Those of points ``test`` (T, p) among the data."""
        return cls._around_deepest(geometry, geometry.coordinates(test), geometry.distance(test))

    @classmethod
    def of_left_out(cls, geometry: Geometry, found: LeftOut) -> Gaps:
        """Those of left-out observations; who stands in for several points, or near somebody else, is in one gap."""
        rows, place = np.unique(found.index, return_inverse=True)
        depth = np.zeros(len(rows))
        np.maximum.at(depth, place, found.distance)
        at = geometry.points[torch.from_numpy(rows).to(geometry.points.device)]
        return cls(cls._around_deepest(geometry, at, torch.from_numpy(depth).to(at)).number[place])

    @classmethod
    def _around_deepest(cls, geometry: Geometry, at: torch.Tensor, depth: torch.Tensor) -> Gaps:
        """Those of places ``at`` (T, q) that are as far as ``depth`` (T,) from the data."""
        size, n = len(geometry.points), len(at)
        if n < 2 or size < 2:
            return cls(np.arange(n))
        places, deep, number = at.cpu().numpy(), depth.cpu().numpy(), np.full(n, -1)
        tree, found, shallow = cKDTree(places), 0, NEAR * geometry.spacing
        for point in np.argsort(-deep, kind="stable"):
            if number[point] >= 0:
                continue
            if deep[point] > shallow:
                near = np.array(tree.query_ball_point(places[point], 2 * deep[point]))
                apart = np.linalg.norm(places[near] - places[point], axis=1)
                inside = near[apart < deep[point]]
                wide = near[(deep[near] > shallow) | (apart < deep[point] + deep[near])]
                there = wide if len(wide) <= 2**_COORDINATES * len(inside) else inside
                number[there[number[there] < 0]] = found
            number[point] = found
            found += 1
        return cls(number)

    def __len__(self) -> int:
        return int(self.number.max()) + 1

    def some(self, chosen: np.ndarray) -> Gaps:
        """Those of the points ``chosen``: a mask (n,) or indices."""
        return Gaps(np.unique(self.number[chosen], return_inverse=True)[1])

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many points each gap has."""
        return np.bincount(self.number)

    @property
    def alike(self) -> float:
        """How many gaps of the same size they count like: the largest have most of the points."""
        return float(len(self.number) ** 2 / np.square(self.sizes.astype(float)).sum())

    @property
    def matter(self) -> bool:
        """Whether most points have company in their gap."""
        return len(self.number) >= _COMPANY * self.alike

    @property
    def few(self) -> bool:
        """Whether their differences do not tell what others would do."""
        return self.alike < _FEWEST

    def worth(self, values: np.ndarray) -> float:
        """How many independent ones ``values`` (n,) count like, by how much their sums differ from gap to gap."""
        n, apart = len(values), values - values.mean()
        between = np.square(np.bincount(self.number, apart)).sum() * self.alike / max(self.alike - 1, 1e-9)
        return float(min(n, max(1.0, n * np.square(apart).sum() / between))) if between > 0 else float(n)

    def standard_error(self, values: np.ndarray) -> float:
        """That of the mean of ``values`` (n,)."""
        return float(values.std() / self.worth(values) ** 0.5)

    def shares(self, inside: np.ndarray) -> np.ndarray:
        """Which share is ``inside`` (n,) in each of those gaps that have many points."""
        return np.asarray((np.bincount(self.number, inside) / self.sizes)[self.sizes >= MANY])
