"""Where a fit starts when no prior was given: one policy for the estimator, the command line and gridded fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..kernels import EARTH_RADIUS, Geographic, Kernel, Matern32, Product, Radial, Standardised

NOISE_SHARE = 0.1  # without a better idea, a tenth of the variance of y is noise
_SPREAD_SHARE = 0.5  # lengthscales start at this share of the spread of the data
# Columns whose spreads differ by more than this factor are not measured alike; up to three may be coordinates, which
# a region may be long along.
_ALIKE, _COORDINATES, _COORDINATES_ALIKE = 3.0, 3, 10.0
_OF_RANGE = 0.25
_ROUNDING = 1e-10
_GLOBE_SHARE = 0.05  # those on the globe start at this share of the Earth's radius: about 300 km


@dataclass(frozen=True)
class Group:
    """Columns of one kernel, None for all, and where its lengthscale starts; on a globe where there is a ``radius``,
    divided by ``spreads`` where the columns are not measured alike and have one lengthscale.
    """

    columns: tuple[int, ...] | None
    lengthscale: float | tuple[float, ...]
    radius: float | None = None
    spreads: tuple[float, ...] = ()

    @classmethod
    def of(cls, X: np.ndarray, columns: tuple[int, ...], each: bool) -> Group:
        """Of these columns of X (n, p), which have a lengthscale ``each`` or one for all."""
        own = X[:, columns]
        spreads = () if each or len(columns) == 1 else _unlike_spreads(own)
        return cls(columns, starting_lengthscale(own / (spreads or 1.0), _SPREAD_SHARE, each), spreads=spreads)


def starting_kernel(
    groups: Sequence[Group], variance: float, kind: type[Radial] = Matern32
) -> tuple[Kernel, tuple[str, ...]]:
    """The product of a kernel for each group, and what a fit must hold: variances of all factors but the first."""
    factors, held = list[Kernel](), list[str]()
    for group in groups:
        kernel: Kernel = kind(group.lengthscale, 1.0 if factors else variance)
        kernel = kernel if group.radius is None else Geographic(kernel, group.radius)
        kernel = Standardised(kernel, group.spreads) if group.spreads else kernel
        factors.append(kernel if group.columns is None else kernel.on(*group.columns))
        names = factors[-1].hyperparameter_names(f"kernel.kernels[{len(factors) - 1}]")
        held += [name for name in names if name.endswith(".variance") and len(factors) > 1]
    return (factors[0] if len(factors) == 1 else Product(tuple(factors))), tuple(held)


def column_groups(
    X: np.ndarray, globe: tuple[int, ...] | None = None, times: Sequence[int] = (), each: bool = True
) -> list[Group]:
    """The columns of X (n, p) that are measured alike: latitude and longitude, other numbers, each of the times."""
    columns = range(X.shape[1])
    numbers = tuple(c for c in columns if c not in (globe or ()) and c not in times)
    groups = [] if globe is None else [Group(globe, _GLOBE_SHARE * EARTH_RADIUS, EARTH_RADIUS)]
    alike = [numbers] * bool(numbers) + [(c,) for c in times]
    groups += [Group.of(X, some, each) for some in alike]
    if len(groups) == 1 and groups[0].columns == tuple(columns):
        groups = [replace(groups[0], columns=None)]
    return groups


def _unlike_spreads(X: np.ndarray) -> tuple[float, ...]:
    """The spreads of columns X (n, p) that are not measured alike; () where they are, as coordinates mostly."""
    spread = spread_of(X)
    for column in np.flatnonzero([len(np.unique(each)) == 2 for each in X.T]):  # a rare category is not far from all
        spread[column] = max(spread[column], _OF_RANGE * float(np.ptp(X[:, column])))
    known = spread[spread > 0]
    alike = _ALIKE if X.shape[1] > _COORDINATES else _COORDINATES_ALIKE
    if not len(known) or known.max() <= alike * known.min():
        return ()
    return tuple(float(f"{each:.4g}") or 1.0 for each in spread)


def starting_lengthscale(X: np.ndarray, share: float, each: bool = True) -> float | tuple[float, ...]:
    """``share`` of a typical distance of points X (n, p); for ``each`` of several columns, of its spread times √p."""
    p, spread = X.shape[1], spread_of(X)
    if each and p > 1:
        # a constant column says nothing, whatever its lengthscale is
        return tuple((share * p**0.5 * np.where(spread > 0, spread, 1.0)).tolist())
    return share * float(np.sqrt(np.square(spread).sum())) or 1.0


def spread_of(X: np.ndarray) -> np.ndarray:
    """The standard deviations of columns X (n, p); 0 of a constant, whose own is a rounding error."""
    spread = X.std(axis=0)
    return np.where(spread > _ROUNDING * np.abs(X).max(axis=0, initial=0.0), spread, 0.0)


def scale_of(y: np.ndarray) -> float:
    """The variance of y (n,) or (n, outputs), averaged over the outputs, in a form that is positive for any data."""
    return float(np.mean(np.var(y, axis=0))) or float(np.mean(np.square(y))) or 1.0
