"""What is left out around training points, and where points without data lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Gaps:
    """Left out around n points: what is nearer than ``radius`` (n,), or than ``reach`` (n,) to ``centre`` (n, q)."""

    radius: torch.Tensor
    centre: torch.Tensor
    reach: torch.Tensor

    @property
    def any(self) -> bool:
        """Whether more than the points themselves is left out."""
        return bool((self.radius > 0).any() | (self.reach > 0).any())

    def some(self, chosen: torch.Tensor) -> Gaps:
        """Those at the places ``chosen``: a mask (n,) or indices."""
        return Gaps(self.radius[chosen], self.centre[chosen], self.reach[chosen])

    def hold(self, own: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Whether points ``others`` (n, m, q) lie in the gap of each of ``own`` (n, q), shape (n, m)."""
        near = (others - own[:, None]).norm(dim=2) < self.radius[:, None]
        return near | ((others - self.centre[:, None]).norm(dim=2) < self.reach[:, None])


@dataclass(frozen=True)
class Voids:
    """Where points without data lie: ``distance`` (T,) to the nearest datum, ``reach`` (T,) of the largest ball without
    data around one of them that holds the point, and how far its middle is, ``offset`` (T,).
    """

    distance: torch.Tensor
    reach: torch.Tensor
    offset: torch.Tensor

    def some(self, chosen: torch.Tensor) -> Voids:
        """Those at the places ``chosen``: a mask (T,) or indices."""
        return Voids(self.distance[chosen], self.reach[chosen], self.offset[chosen])
