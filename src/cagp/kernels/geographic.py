"""Points on the globe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..support.validation import positive
from .base import Embedding, Kernel, Wrapper

EARTH_RADIUS = 6371.0
"""In kilometres, on average: it is 6,357 at the poles and 6,378 at the equator."""

_TURNS = 720.0  # degrees: what is further out is another quantity, metres perhaps


def unit_sphere(latlon: torch.Tensor) -> torch.Tensor:
    """(latitude, longitude) in degrees, shape (n, 2), as unit vectors, shape (n, 3); full turns do not matter."""
    latitude, longitude = torch.deg2rad(torch.stack([latlon[:, 0], latlon[:, 1].fmod(360.0)]))
    around = torch.cos(latitude)
    return torch.stack([around * torch.cos(longitude), around * torch.sin(longitude), torch.sin(latitude)], dim=1)


def smallest_arc(longitudes: np.ndarray) -> tuple[float, float]:
    """West and east end of the smallest arc with all longitudes (n,), as they are written where that is an arc."""
    west, east = float(longitudes.min()), float(longitudes.max())
    around = np.unique(longitudes % 360)
    gaps = np.diff(around, append=around[0] + 360)
    widest = int(gaps.argmax())
    if gaps[widest] <= 360 - (east - west) + 1e-9:
        return west, east
    first = float(around[(widest + 1) % len(around)])
    first -= 360 if first > 180 else 0
    return first, first + 360 - float(gaps[widest])


@dataclass(frozen=True)
class Geographic(Wrapper):
    """A kernel on (latitude, longitude) in degrees that measures the chord between points on the unit sphere.

    Chordal distance keeps every kernel of Euclidean distance positive definite on the globe, has no seam at the
    date line and no crowding at the poles. Longitudes may be written from −180 to 180, from 0 to 360, or from 20 to 380
    as those of oceans are. Lengthscales are in units of ``radius``: with the default, in Earth radii
    (0.1 is about 637 km); with ``radius=6371``, in kilometres.
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(f"Geographic wraps a kernel, got {self.kernel!r}; write Geographic(Matern32(0.1))")
        object.__setattr__(self, "radius", positive(self.radius, "radius"))

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        if X.shape[1] != 2:
            raise InputError(
                f"Geographic needs points (latitude, longitude), got {X.shape[1]} columns; "
                "with more columns use Geographic(kernel).on(0, 1)"
            )
        worst = X[:, 0].abs().max().item()
        if worst > 90:
            raise InputError(
                f"a latitude of magnitude {worst:g} is outside -90…90 degrees; are the columns (latitude, longitude)?"
            )
        furthest = X[:, 1].abs().max().item()
        if furthest > _TURNS:
            raise InputError(
                f"a longitude of magnitude {furthest:g} is no degrees east that anybody writes; if it is one, take it "
                "modulo 360: X[:, 1] % 360"
            )
        sphere = self.radius * unit_sphere(X)
        return self.kernel.embed(sphere, torch.zeros(3, dtype=X.dtype, device=X.device))

    @property
    def distance_unit(self) -> str:
        """The unit of distances on a globe of this radius."""
        if self.radius == 1:
            return "Earth radii"
        for unit, factor in (("km", 1.0), ("m", 1000.0)):
            if abs(self.radius / factor / EARTH_RADIUS - 1) < 0.005:
                return unit
        return f"{1 / self.radius:.3g} Earth radii"

    def columns_below(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        return ()  # the kernel inside sees the three coordinates of the sphere

    def in_words(self, columns: Sequence[str]) -> str:
        unit = {"km": "kilometres", "m": "metres"}.get(self.distance_unit, self.distance_unit)
        return f"{self.kernel.in_words(())} of the chordal distance on the globe, in {unit}"


def geographic_columns(kernel: Kernel, columns: Sequence[int]) -> list[tuple[int, ...]]:
    """The columns that each Geographic inside ``kernel`` is given, where ``kernel`` is given ``columns``."""
    return [part.columns for part in kernel.walk(columns) if isinstance(part.kernel, Geographic)]
