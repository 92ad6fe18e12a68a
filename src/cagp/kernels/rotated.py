"""Directions: a kernel whose lengthscales belong to axes that are turned against the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..support.numbers import BEYOND, FAR
from ..support.validation import real
from .base import Embedding, Kernel, Product, Sum, Wrapper, WriteNumber, validate_hyperparameter
from .radial import Radial

_THREE = 3


def rotation(angle: torch.Tensor) -> torch.Tensor:
    """The turned axes as the rows of a matrix (p, p), from one angle () or three (3,) as ``Rotated`` has them."""
    cosine, sine = torch.cos(torch.deg2rad(angle)), torch.sin(torch.deg2rad(angle))
    if angle.ndim == 0:
        return torch.stack([torch.stack([cosine, sine]), torch.stack([-sine, cosine])])
    (ca, cb, cg), (sa, sb, sg), zero = cosine.unbind(), sine.unbind(), torch.zeros_like(cosine[0])
    flat, up = torch.stack([-sa, ca, zero]), torch.stack([-ca * sb, -sa * sb, cb])
    return torch.stack([torch.stack([ca * cb, sa * cb, sb]), cg * flat + sg * up, cg * up - sg * flat])


def angles_of(axes: np.ndarray) -> float | tuple[float, ...]:
    """The angles, in degrees, of orthonormal ``axes``, the rows of a matrix (p, p), p 2 or 3, of any handedness."""
    if len(axes) < _THREE:
        return _half_turn(math.degrees(math.atan2(axes[0, 1], axes[0, 0])))
    first, second = axes[0], axes[1]
    azimuth, dip = math.atan2(first[1], first[0]), math.asin(min(1.0, max(-1.0, first[2])))
    flat = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
    up = np.cross(first, flat)
    return _canonical((azimuth, dip, math.atan2(float(second @ up), float(second @ flat))))


def _half_turn(degrees: float) -> float:
    """An angle of the same axis in (−90, 90]."""
    return 90.0 - (90.0 - degrees) % 180.0


def _canonical(radians: Sequence[float]) -> tuple[float, ...]:
    """Azimuth, dip and roll of the same axes, in degrees: each in (−90, 90], since an axis has no sign."""
    azimuth, dip, roll = (math.degrees(each) for each in radians)
    dip = 180.0 - (180.0 - dip) % 360.0
    if abs(dip) > 90:  # over the top: the same axis from the other side
        dip, azimuth = math.copysign(180.0, dip) - dip, azimuth + 180.0
    half = _half_turn(azimuth)
    if round((azimuth - half) / 180.0) % 2:  # the axis turned round
        dip, roll = -dip, -roll
    return half, dip, _half_turn(roll)


def _checked_angle(value: Any, name: str) -> float | tuple[float, ...]:
    if isinstance(value, (np.ndarray, torch.Tensor)) and value.ndim == 1:
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != _THREE:
            raise InputError(
                f"{name} must be one number for two columns, or three numbers (azimuth, dip, roll) for three columns, "
                f"got {len(value)} numbers"
            )
        given = [real(v, f"{name}[{i}]") for i, v in enumerate(value)]
        return _canonical([math.radians(each) for each in given]) if max(map(abs, given)) > 90 else tuple(given)
    degrees = real(value, name)
    return degrees if -90 < degrees <= 90 else _half_turn(degrees)


@dataclass(frozen=True)
class PrincipalAxis:
    """One of the axes of an ellipse of equal correlation: its ``lengthscale`` and unit vector ``direction`` (p,)."""

    lengthscale: float
    direction: tuple[float, ...]

    @property
    def azimuth(self) -> float:
        """Degrees counter-clockwise from the first column, towards the second, in (−90, 90]."""
        return _half_turn(math.degrees(math.atan2(self.direction[1], self.direction[0])))

    @property
    def dip(self) -> float:
        """Degrees towards the third column, at this azimuth; 0 where there are two columns."""
        if len(self.direction) < _THREE:
            return 0.0
        at = math.radians(self.azimuth)
        ahead = self.direction[0] * math.cos(at) + self.direction[1] * math.sin(at)
        return _half_turn(math.degrees(math.atan2(self.direction[2], ahead)))


@dataclass(frozen=True)
class Rotated(Wrapper):
    """A kernel with one lengthscale for each of two or three axes that are turned against the columns.

    ``Rotated(Matern32((4.0, 1.0)), 30)`` reaches four times as far in the direction that lies 30° from the first
    column towards the second (counter-clockwise where the first points to the right and the second up) as across it:
    with easting and northing as columns an azimuth of 60° from north, clockwise. For three columns ``angle`` is
    (azimuth, dip, roll): the first axis lies at the azimuth in the plane of the first two columns, and ``dip`` degrees
    out of it towards the third; the other two are turned around it by ``roll``.

    Angles are in degrees, kept in (−90, 90] since an axis has no sign, and fitted beside the lengthscales. Which axis
    is the first is open: (4, 1) at 30° is (1, 4) at −60°. The kernel inside is radial, or made of radial ones by sums
    and products. For points with more columns use ``Rotated(kernel, angle).on(0, 1)``.
    """

    angle: float | tuple[float, ...] = 0.0

    hyperparameters: ClassVar[tuple[str, ...]] = ("angle",)
    angles: ClassVar[tuple[str, ...]] = ("angle",)
    coordinate_called: ClassVar[str] = "axis"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(f"Rotated wraps a kernel, got {self.kernel!r}; write Rotated(Matern32((4, 1)), 30)")
        if not any(np.ndim(_plain(each.lengthscale)) for each in _radial_inside(self.kernel)):
            raise InputError(
                f"{self.kernel!r} has one lengthscale in all directions, which no rotation changes; give one for each "
                "axis, such as Matern32((4.0, 1.0))"
            )
        validate_hyperparameter(self, "angle", _checked_angle)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        angle = torch.as_tensor(self.angle, dtype=X.dtype, device=X.device)
        wanted = 2 if angle.ndim == 0 else _THREE
        if X.shape[1] != wanted:
            raise InputError(
                f"Rotated with {'one angle' if wanted == 2 else 'three angles'} needs {wanted} columns, the points have"
                f" {X.shape[1]}; {'with three columns give (azimuth, dip, roll), ' if X.shape[1] == _THREE else ''}"
                "with more columns use Rotated(kernel, angle).on(0, 1)"
            )
        axes, around = rotation(angle), X - origin
        # column by column: a product of matrices may round a point otherwise in another company
        turned = around[:, :1] * axes[:, 0]
        for j in range(1, wanted):
            turned = turned + around[:, j : j + 1] * axes[:, j]
        return self.kernel.embed(turned, torch.zeros_like(origin))

    def columns_below(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        return ()  # the kernel inside sees the turned axes

    @property
    def axes(self) -> list[list[PrincipalAxis]]:
        """For each radial kernel inside, its axes from the longest lengthscale to the shortest."""
        directions = rotation(torch.tensor(self.angle, dtype=torch.float64)).numpy()
        found = []
        for part in _radial_inside(self.kernel):
            scales = np.broadcast_to(_plain(part.lengthscale), len(directions))
            order = np.argsort(-scales, kind="stable")
            found.append([PrincipalAxis(float(scales[i]), tuple(directions[i].tolist())) for i in order])
        return found

    def in_words(self, columns: Sequence[str]) -> str:
        degrees = [f"{each:.3g}°" for each in np.atleast_1d(self.angle)]
        told = f"azimuth {degrees[0]}, dip {degrees[1]} and roll {degrees[2]}" if len(degrees) == _THREE else degrees[0]
        inside = self.kernel.in_words(columns).replace("per column", "per axis")
        return f"{inside}, on axes turned by {told}"

    def formula(self, number: WriteNumber) -> str:
        return f"{self.kernel.formula(number)}, x in turned axes"


def directions_in_words(kernel: Kernel, columns: Sequence[str], X: np.ndarray) -> list[str]:
    """A sentence for every Rotated inside a kernel: where the correlation reaches furthest, and how far.

    A lengthscale far beyond the data X (n, p) is said in words.
    """
    said, spans = [], np.ptp(X, axis=0)
    for part in kernel.walk(range(len(columns))):
        for first, *others in part.kernel.axes if isinstance(part.kernel, Rotated) else ():
            names = [columns[c] for c in part.columns]
            where = f"at {first.azimuth:.0f}° (counter-clockwise from {names[0]} towards {names[1]})"
            where += f", {first.dip:.0f}° towards {names[2]}" if len(others) > 1 else ""
            most = FAR * float(np.linalg.norm(spans[list(part.columns)]))
            scales = [each.lengthscale for each in (first, *others)]
            there, *across = (BEYOND if 0 < most < each else f"{each:.4g}" for each in scales)
            there = f"the lengthscale is {there} there, {' and '.join(across)} across"
            said.append(f"The correlation reaches furthest {where}: {there}.")
    return said


def _plain(lengthscale: Any) -> Any:
    return lengthscale.detach().cpu().numpy() if isinstance(lengthscale, torch.Tensor) else lengthscale


def _radial_inside(kernel: Kernel) -> list[Radial]:
    """The radial kernels that sums and products are made of; refuses anything else."""
    if isinstance(kernel, Radial):
        return [kernel]
    if isinstance(kernel, (Sum, Product)):
        return [each for part in kernel.kernels for each in _radial_inside(part)]
    raise InputError(
        f"Rotated is for radial kernels, and sums and products of them, got {kernel!r}; rotate first, then choose "
        "columns or add the rest: Rotated(Matern32((4.0, 1.0)), 30).on(0, 1) + Linear()"
    )
