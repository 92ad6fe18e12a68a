"""Where a fit starts, and what it is fitted to, for people who do not want to choose.

Starting values come from the spread of the data. Up to 2,000 observations are fitted to as they are; of more, a sample
of 2,000 is: half of it at random, half in patches of near neighbours, so that short distances are seen as well as long
ones (a sample at random alone takes short-range structure for noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..errors import InputError
from ..hyperparameters.starting_prior import Group, starting_kernel, starting_lengthscale
from ..kernels import EARTH_RADIUS, Kernel, Radial, geographic_columns
from ..means import Constant, Mean, Polynomial, Zero
from ..prior import Prior
from ..support.validation import points
from ..tables import RawColumns, Table
from .expressions import KERNEL_NAMES, evaluated

_MEANS = {"zero": Zero(), "constant": Constant(), "linear": Polynomial(1), "quadratic": Polynomial(2)}

_AT_MOST = 2000
_PATCH = 25
_SPREAD_SHARE = 0.5
"""Lengthscales start at this share of the spread of the data."""

_GLOBE_SHARE = 0.05
"""Those on the globe start at this share of the Earth's radius: about 300 km."""


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


@dataclass(frozen=True)
class PriorAsked:
    """The options that say what the prior is, as they were written."""

    kernel: str
    mean: str
    geo: str | None
    ard: bool
    lengthscale: str | None
    variance: float | None
    noise: float | None

    def __post_init__(self) -> None:
        _ = self._mean, self._kernel  # what cannot be read is refused at once
        scales = [("--lengthscale", each) for each in self._scales or ()]
        for option, value in [("--noise", self.noise), ("--variance", self.variance), *scales]:
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{option} must be positive, got {value:g}")
        valued = self._scales is not None or self.variance is not None
        if self.written and (valued or (self.geo or "none").lower() != "none"):
            raise InputError(
                f"--kernel {self.kernel!r} has its values in it; leave out --geo, --lengthscale and --variance"
            )

    @cached_property
    def _mean(self) -> Mean:
        if self.mean not in _MEANS:
            raise InputError(f"--mean must be one of {', '.join(_MEANS)}, got {self.mean!r}")
        return _MEANS[self.mean]

    @cached_property
    def _kernel(self) -> type[Radial] | Kernel:
        """The kind of kernel of that name, or the kernel that an expression means."""
        radial = {name: kind for name, kind in KERNEL_NAMES.items() if issubclass(kind, Radial)}
        known = radial.get(self.kernel.lower().replace("-", "").replace("_", ""))
        if known is not None:
            return known
        otherwise = f"--kernel must be one of {', '.join(radial)}, or such as 'Matern32(0.5).on(0, 1) + RBF(2.0).on(2)'"
        kernel = evaluated(self.kernel, otherwise, list(radial))
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

    def prior_for(self, training: Training) -> tuple[Prior, list[str]]:
        """The prior with starting values for these data, and the hyperparameters that must stay as they are."""
        kernel, fixed = self._kernel_for(training)
        noise: float | np.ndarray | None = self.noise if training.noise is None else training.noise
        if noise is None:
            noise = 0.1 * float(np.var(training.y)) or 1e-6
        return Prior(kernel, mean=self._mean, noise_variance=noise), list(fixed)

    def _kernel_for(self, training: Training) -> tuple[Kernel, tuple[str, ...]]:
        kind, X, scales = self._kernel, training.X, self._scales
        if isinstance(kind, Kernel):
            return kind, ()
        variance = self.variance if self.variance is not None else float(np.var(training.y)) or 1.0
        if training.globe is None:
            return starting_kernel([Group(None, self._lengthscale(X))], variance, kind)
        if scales is not None and len(scales) > 1:
            raise InputError("with --geo, --lengthscale is one number, in kilometres on the globe")
        where = tuple(training.columns.index(each) for each in training.globe)
        others = tuple(i for i in range(len(training.columns)) if i not in where)
        distance = scales[0] if scales else _GLOBE_SHARE * EARTH_RADIUS
        groups = [Group(where if others or where != (0, 1) else None, distance, radius=EARTH_RADIUS)]
        if others:
            groups.append(Group(others, starting_lengthscale(X[:, others], _SPREAD_SHARE, self.ard)))
        return starting_kernel(groups, variance, kind)

    def _lengthscale(self, X: np.ndarray) -> float | tuple[float, ...]:
        given, p = self._scales, X.shape[1]
        if given is None:
            return starting_lengthscale(X, _SPREAD_SHARE, self.ard)
        if len(given) not in (1, p):
            raise InputError(f"--lengthscale has {len(given)} values for {p} features; give one, or one for each")
        if not self.ard and len(given) > 1:
            raise InputError(f"--no-ard is one lengthscale for all features, --lengthscale has {len(given)} values")
        return given[0] if not self.ard or p == 1 else given if len(given) == p else given * p

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


def near_by(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """X (n, p) in coordinates (n, q) where near is what the kernel calls near; X itself where there are none."""
    train = points(X, "X")
    embedding = kernel.embed(train, train.mean(dim=0)) if kernel.radial else None
    return embedding.T.numpy() if isinstance(embedding, torch.Tensor) else X


def sample(X: np.ndarray, size: int | None, seed: int) -> np.ndarray | None:
    """The rows of X (n, p) to fit to, sorted; None for all of them. ``size`` is what was asked for, if anything was."""
    n = len(X)
    size = min(_AT_MOST, n) if size is None else size
    if not 2 <= size <= n:
        raise InputError(f"--subset must be between 2 and the number of rows, {n}; got {size}")
    if size == n:
        return None
    generator = np.random.default_rng(seed)
    chosen = set(generator.choice(n, size - size // 2, replace=False).tolist())
    spread = X.std(axis=0)
    scaled = X / np.where(spread > 0, spread, 1.0)
    tree = cKDTree(scaled)
    for centre in generator.permutation(n):
        near = np.atleast_1d(tree.query(scaled[centre], k=min(_PATCH, n))[1]).tolist()
        chosen.update(near[: size - len(chosen)])
        if len(chosen) == size:
            break
    return np.sort(np.fromiter(chosen, dtype=np.int64))
