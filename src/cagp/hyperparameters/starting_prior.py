"""Where a fit starts when no prior was given: one policy for the estimator, the command line and gridded fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..kernels import EARTH_RADIUS, Geographic, Kernel, Matern32, Product, Radial

NOISE_SHARE = 0.1  # without a better idea, a tenth of the variance of y is noise
_SPREAD_SHARE = 0.5  # lengthscales start at this share of the spread of the data
_GLOBE_SHARE = 0.05  # those on the globe start at this share of the Earth's radius: about 300 km


@dataclass(frozen=True)
class Group:
    """Columns of one kernel, None for all, and where its lengthscale starts; on a globe where there is a ``radius``."""

    columns: tuple[int, ...] | None
    lengthscale: float | tuple[float, ...]
    radius: float | None = None


def starting_kernel(
    groups: Sequence[Group], variance: float, kind: type[Radial] = Matern32
) -> tuple[Kernel, tuple[str, ...]]:
    """The product of a kernel for each group, and what a fit must hold: variances of all factors but the first."""
    factors: list[Kernel] = []
    for group in groups:
        kernel: Kernel = kind(group.lengthscale, 1.0 if factors else variance)
        kernel = kernel if group.radius is None else Geographic(kernel, group.radius)
        factors.append(kernel if group.columns is None else kernel.on(*group.columns))
    held = tuple(f"kernel.kernels[{i}].kernel.variance" for i in range(1, len(factors)))
    return (factors[0] if len(factors) == 1 else Product(tuple(factors))), held


def column_groups(
    X: np.ndarray, globe: tuple[int, ...] | None = None, times: Sequence[int] = (), each: bool = True
) -> list[Group]:
    """The columns of X (n, p) that are measured alike: latitude and longitude, other numbers, each of the times."""
    columns = range(X.shape[1])
    numbers = tuple(c for c in columns if c not in (globe or ()) and c not in times)
    groups = [] if globe is None else [Group(globe, _GLOBE_SHARE * EARTH_RADIUS, EARTH_RADIUS)]
    alike = [numbers] * bool(numbers) + [(c,) for c in times]
    groups += [Group(some, starting_lengthscale(X[:, some], _SPREAD_SHARE, each)) for some in alike]
    if len(groups) == 1 and groups[0].columns == tuple(columns):
        groups = [replace(groups[0], columns=None)]
    return groups


def starting_lengthscale(X: np.ndarray, share: float, each: bool = True) -> float | tuple[float, ...]:
    """``share`` of a typical distance of points X (n, p); for ``each`` of several columns, of its spread times √p."""
    p, spread = X.shape[1], X.std(axis=0)
    if each and p > 1:
        # a constant column says nothing, whatever its lengthscale is
        return tuple((share * p**0.5 * np.where(spread > 0, spread, 1.0)).tolist())
    return share * float(np.sqrt(np.square(spread).sum())) or 1.0


def scale_of(y: np.ndarray) -> float:
    """The variance of y (n,) or (n, outputs), averaged over the outputs, in a form that is positive for any data."""
    return float(np.mean(np.var(y, axis=0))) or float(np.mean(np.square(y))) or 1.0
