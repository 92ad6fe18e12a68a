"""What the study of all ERA5 points computes: sizes, samples and the names of its methods."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..solvers import CalibratedCG, GaussSeidel
from .era5_full_field import points_of
from .era5_full_hyperparameters import COARSE, FITTED, FREE
from .era5_prior import Era5Prior
from .place import place

ITERATED = (GaussSeidel.name, CalibratedCG.name)
"""The methods that read the whole Gram matrix in every iteration."""

BOUNDED = "neighbours-bounds"
"""Nearest neighbours with bounds on their computational variance, which cost three passes over the Gram matrix."""

MAP = "map"

HELD_OUT, MORE = "held-out", "more"
"""The samples: points that no method sees, and more of them for nearest neighbours, whose training set is smaller."""


@dataclass(frozen=True)
class FullSizes:
    """How much the iterative methods do.

    Gauss-Seidel in spatial blocks of ``block`` points; CG preconditioned by Nyström of ``rank``, from ``start`` nearest
    neighbours; both recorded after the iterations ``recorded``. ``memory`` in bytes is what they may take.
    """

    block: int = 1024
    rank: int = 1200
    start: int = 100
    recorded: tuple[int, ...] = (1, 2, 5, 10)
    memory: int = 40 * 2**30


@dataclass(frozen=True)
class FullConfig:
    """Every ``thin``-th row and column of the field but ``held_out`` points; ``more`` others are held out, too, where
    nearest neighbours are judged once more.

    ``neighbours`` are the numbers k at held-out points, ``map_neighbours`` that on the map. The iterative methods use
    the hyperparameters of the names ``iterated``, and need a GPU beyond ``processor_limit`` points.
    """

    thin: int
    held_out: int = 100
    more: int = 2000
    neighbours: tuple[int, ...] = (10, 30, 100, 300)
    map_neighbours: int = 40
    names: tuple[str, ...] = (FITTED, COARSE, FREE)
    iterated: tuple[str, ...] = (FITTED,)
    sizes: FullSizes = field(default_factory=FullSizes)
    processor_limit: int = 5000
    priors: tuple[Era5Prior, ...] = ()

    @property
    def d(self) -> int:
        """How many training points there are."""
        return points_of(self.thin) - self.held_out

    def prior(self, name: str) -> Era5Prior:
        """The prior with the hyperparameters of that name."""
        return self.priors[self.names.index(name)]

    def iterates(self) -> bool:
        """Whether the iterative methods can run on this machine."""
        return place().type == "cuda" or self.d <= self.processor_limit
