"""What the options of ``cagp fit`` say about the prior: everything, its kind, or nothing, so that it is chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..choosing.candidates import KINDS, SHORT_AND_LONG
from ..choosing.candidates import TRENDS as _MEANS
from ..errors import InputError
from ..hyperparameters.starting_prior import Group, column_groups, scale_of, starting_kernel
from ..kernels import Kernel, Matern32, Periodic, Radial, geographic_columns
from ..means import Constant, Mean
from ..prior import Prior
from ..tables import RawColumns, Table
from .expressions import KERNEL_NAMES, evaluated

_AUTO = "auto"


@dataclass(frozen=True, eq=False)
class Training:
    """Observations y (n,) of ``target`` at X (n, p), the ``columns`` of a table; without ``copied`` rows.

    ``noise`` (n,) are their noise variances, where a column has them; ``globe`` are latitude and longitude among the
    columns, where distance is measured on the globe.
    """

    raw: RawColumns
    table: Table
    target: str
    columns: list[str]
    X: np.ndarray
    y: np.ndarray
    noise: np.ndarray | None
    globe: tuple[str, str] | None
    copied: int

    @property
    def globe_columns(self) -> tuple[int, ...] | None:
        """Which columns latitude and longitude are."""
        return None if self.globe is None else tuple(self.columns.index(each) for each in self.globe)


@dataclass(frozen=True)
class PriorAsked:
    """The options that say what the prior is, as they were written."""

    kernel: str
    mean: str
    geo: str | None
    ard: bool | None
    lengthscale: str | None
    variance: float | None
    noise: float | None
    rotate: bool | None = None

    def __post_init__(self) -> None:
        _ = self._mean, self._kernel  # what cannot be read is refused at once
        scales = [("--lengthscale", each) for each in self._scales or ()]
        for option, value in [("--noise", self.noise), ("--variance", self.variance), *scales]:
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{option} must be positive, got {value:g}")
        valued = self._scales is not None or self.variance is not None
        if self.rotate and (self.written or valued or self._kernel is Periodic):
            raise InputError(
                "--rotate is for a kernel that is chosen; leave out --lengthscale and --variance, or write it with its "
                "values: --kernel 'Rotated(Matern32((4.0, 1.0)), 30)'"
            )
        if self.written and (valued or (self.geo or "none").lower() != "none"):
            raise InputError(
                f"--kernel {self.kernel!r} has its values in it; leave out --geo, --lengthscale and --variance"
            )

    @cached_property
    def _mean(self) -> Mean | None:
        """The mean of that name; None where it is to be chosen."""
        if self.mean not in (_AUTO, *_MEANS):
            raise InputError(f"--mean must be one of {', '.join((_AUTO, *_MEANS))}, got {self.mean!r}")
        return _MEANS.get(self.mean)

    @cached_property
    def _kernel(self) -> type[Radial] | Kernel | tuple[str, ...] | None:
        """The kind of kernel of that name, several names, the kernel that an expression means; None for any kind."""
        radial = {name: kind for name, kind in KERNEL_NAMES.items() if issubclass(kind, Radial)}
        names = tuple(each.strip().lower().replace("-", "").replace("_", "") for each in self.kernel.split(","))
        if names == (_AUTO,):
            return None
        if len(names) == 1 and names[0] in radial:
            return radial[names[0]]
        chosen_from = (*KINDS, SHORT_AND_LONG)
        if set(names) <= set(chosen_from):
            return names
        kinds = ", ".join((_AUTO, *radial, SHORT_AND_LONG))
        otherwise = f"--kernel must be one of {kinds}, or such as 'Matern32(0.5).on(0, 1) + RBF(2.0).on(2)'"
        kernel = evaluated(self.kernel, otherwise, [_AUTO, *radial])
        if not isinstance(kernel, Kernel):
            raise InputError(f"{otherwise}; got {self.kernel!r}")
        return kernel

    @cached_property
    def _scales(self) -> tuple[float, ...] | None:
        if self.lengthscale is None:
            return None
        try:
            return tuple(float(each) for each in self.lengthscale.split(","))
        except ValueError:
            wanted = "--lengthscale must be a number, or numbers separated by commas"
            raise InputError(f"{wanted}, got {self.lengthscale!r}") from None

    @property
    def written(self) -> bool:
        """Whether the kernel is an expression, which has its values in it."""
        return isinstance(self._kernel, Kernel)

    def globe_among(self, columns: list[str]) -> tuple[str, str] | None:
        """The columns that a written kernel takes for latitude and longitude."""
        if not isinstance(self._kernel, Kernel):
            return None
        pairs = [each for each in geographic_columns(self._kernel, tuple(range(len(columns)))) if len(each) == 2]
        return (columns[pairs[0][0]], columns[pairs[0][1]]) if pairs else None

    def for_fit(self, training: Training) -> dict[str, Any]:
        """What ``cagp.fit`` is told: the prior where its values or its whole kernel were given, else what is known."""
        told: dict[str, Any] = {"mean": self._mean, "noise_variance": self._noise(training), "fix": ()}
        if self.written or self._scales is not None or self.variance is not None or self._kernel is Periodic:
            kernel, fixed = self._kernel_for(training)
            return {**told, "kernel": kernel, "fix": fixed}
        where = training.globe_columns
        kind = self._kernel
        names = next(name for name, each in KINDS.items() if each is kind) if isinstance(kind, type) else kind
        return {**told, "kernel": names, "globe": where, "ard": self.ard, "rotate": self._rotate}

    @property
    def _rotate(self) -> bool | str:
        return "auto" if self.rotate is None else self.rotate

    def some_prior(self, training: Training) -> Prior:
        """A prior on the columns of the data, to match other tables by."""
        kernel = (
            self._kernel
            if isinstance(self._kernel, Kernel)
            else starting_kernel(column_groups(training.X, training.globe_columns), 1.0)[0]
        )
        return Prior(kernel)

    def prior_for(self, training: Training) -> Prior:
        """The prior with the values that were given."""
        kernel, _ = self._kernel_for(training)
        return Prior(kernel, mean=self._mean or Constant(), noise_variance=self._noise(training))

    def _noise(self, training: Training) -> float | np.ndarray | None:
        return self.noise if training.noise is None else training.noise

    def _kernel_for(self, training: Training) -> tuple[Kernel, tuple[str, ...]]:
        """The kernel with the values that were given, and others from the spread of the data; what must be held."""
        kind, X, scales = self._kernel, training.X, self._scales
        if isinstance(kind, Kernel):
            return kind, ()
        if isinstance(kind, tuple):
            raise InputError(f"--lengthscale and --variance are for one kernel, got --kernel {self.kernel!r}")
        variance = self.variance if self.variance is not None else scale_of(training.y)
        where, each = training.globe_columns, self.ard is not False
        groups = column_groups(X, where, each=each)
        if where is not None and scales is not None:
            if len(scales) > 1:
                raise InputError("with --geo, --lengthscale is one number, in kilometres on the globe")
            groups[0] = dataclasses.replace(groups[0], lengthscale=scales[0])
        elif scales is not None:
            groups = [Group(None, self._lengthscales(X.shape[1]))]
        return starting_kernel(groups, variance, kind or Matern32)

    def _lengthscales(self, p: int) -> float | tuple[float, ...]:
        """Those that were given, for p features."""
        given = self._scales or ()
        if len(given) not in (1, p):
            raise InputError(f"--lengthscale has {len(given)} values for {p} features; give one, or one for each")
        if self.ard is False and len(given) > 1:
            raise InputError(f"--no-ard is one lengthscale for all features, --lengthscale has {len(given)} values")
        return given[0] if self.ard is False or p == 1 else given if len(given) == p else given * p

    def require_whole(self, training: Training) -> None:
        """Refuse ``--no-fit`` where the options cannot hold all hyperparameters."""
        if training.globe is not None and len(training.columns) > 2:
            raise InputError(
                "--no-fit takes the hyperparameters as given, and --lengthscale is that on the globe alone; write "
                "all of them as a kernel: "
                "--kernel 'Geographic(Matern32(300.0, 1.0), radius=6371.0).on(0, 1) * Matern32(2.0).on(2)'"
            )


def copies_on_globe(X: np.ndarray, y: np.ndarray, globe: tuple[str, str] | None, features: Sequence[str]) -> np.ndarray:
    """Which observations (n,) repeat another one under a different longitude, and so are none: the accessor's rule."""
    if globe is None or not set(globe) <= set(features):
        return np.zeros(len(y), dtype=bool)
    from ..interop.xarray_coordinates import Axis, copies

    roles = dict(zip(globe, ("latitude", "longitude"), strict=True))
    return copies(X, y, tuple(Axis(name, roles.get(name, "other")) for name in features))
