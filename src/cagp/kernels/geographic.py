"""Points on the globe."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import InputError, InputTypeError
from ..support.buffers import Buffers
from ..support.validation import positive
from .base import Embedding, Kernel


def unit_sphere(latlon: torch.Tensor) -> torch.Tensor:
    """(latitude, longitude) in degrees, shape (n, 2), as unit vectors, shape (n, 3)."""
    latitude, longitude = torch.deg2rad(latlon).T
    return torch.stack(
        [
            torch.cos(latitude) * torch.cos(longitude),
            torch.cos(latitude) * torch.sin(longitude),
            torch.sin(latitude),
        ],
        dim=1,
    )


@dataclass(frozen=True)
class Geographic(Kernel):
    """A kernel on (latitude, longitude) in degrees that measures the chord between points on the unit sphere.

    Chordal distance keeps every kernel of Euclidean distance positive definite on the globe, has no seam at the
    date line and no crowding at the poles. Lengthscales are in units of ``radius``: with the default, in Earth radii
    (0.1 is about 637 km); with ``radius=6371``, in kilometres.
    """

    kernel: Kernel
    radius: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(f"Geographic wraps a kernel, got {self.kernel!r}; write Geographic(Matern32(0.1))")
        object.__setattr__(self, "radius", positive(self.radius, "radius"))

    @property
    def radial(self) -> bool:
        return self.kernel.radial

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
        if furthest > 360:
            raise InputError(f"a longitude of magnitude {furthest:g} is outside -360…360 degrees")
        sphere = self.radius * unit_sphere(X)
        return self.kernel.embed(sphere, torch.zeros(3, dtype=X.dtype, device=X.device))

    def evaluate(
        self, A: Embedding, B: Embedding, out: torch.Tensor | None = None, buffers: Buffers | None = None
    ) -> torch.Tensor:
        return self.kernel.evaluate(A, B, out, buffers)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return self.kernel.diagonal(A)

    def scaled(self, factor: float) -> Kernel:
        return Geographic(self.kernel.scaled(factor), self.radius)
