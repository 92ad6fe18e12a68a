"""Where a fit starts, and what it is fitted to, for people who do not want to choose.

Starting values come from the spread of the data. Up to 2,000 observations are fitted to as they are; of more, a sample
of 2,000 is: half of it at random, half in patches of near neighbours, so that short distances are seen as well as long
ones (a sample at random alone takes short-range structure for noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..errors import InputError
from ..hyperparameters.starting_prior import Group, starting_kernel, starting_lengthscale
from ..kernels import EARTH_RADIUS, Kernel, Radial, geographic_columns
from ..means import Constant, Mean, Polynomial, Zero
from ..support.validation import points
from .expressions import KERNEL_NAMES, evaluated

MEANS = ("zero", "constant", "linear", "quadratic")

_AT_MOST = 2000
_PATCH = 25
_SPREAD_SHARE = 0.5
_GLOBE_SHARE = 0.05
"""Lengthscales on the globe start at this share of the Earth's radius: about 300 km."""


@dataclass(frozen=True)
class Wishes:
    """What was asked for about the kernel: a kind or one as written, (latitude, longitude), and starting values."""

    kernel: type[Radial] | Kernel
    geo: tuple[str, str] | None
    ard: bool
    lengthscale: tuple[float, ...] | None
    variance: float | None


def mean_called(name: str) -> Mean:
    """The mean of that name."""
    if name not in MEANS:
        raise InputError(f"--mean must be one of {', '.join(MEANS)}, got {name!r}")
    degrees = {"linear": 1, "quadratic": 2}
    return Polynomial(degrees[name]) if name in degrees else Constant() if name == "constant" else Zero()


def kernel_called(text: str) -> type[Radial] | Kernel:
    """The kind of kernel of that name, or the kernel that an expression means."""
    name = text.lower().replace("-", "").replace("_", "")
    known = KERNEL_NAMES.get(name)
    if known is not None and issubclass(known, Radial):
        return known
    radial = [each for each, kind in KERNEL_NAMES.items() if issubclass(kind, Radial)]
    otherwise = f"--kernel must be one of {', '.join(radial)}, or such as 'Matern32(0.5).on(0, 1) + RBF(2.0).on(2)'"
    kernel = evaluated(text, otherwise, radial)
    if not isinstance(kernel, Kernel):
        raise InputError(f"{otherwise}; got {text!r}")
    return kernel


def kernel_to_start(
    wishes: Wishes, X: np.ndarray, y: np.ndarray, features: Sequence[str]
) -> tuple[Kernel, tuple[str, ...]]:
    """A kernel with starting values for X (n, p) and y (n,), and the hyperparameters that must stay as they are."""
    kind = wishes.kernel
    if isinstance(kind, Kernel):
        return kind, ()
    variance = wishes.variance if wishes.variance is not None else float(np.var(y)) or 1.0
    if wishes.geo is None:
        return starting_kernel([Group(None, _lengthscale(wishes, X))], variance, kind)
    if wishes.lengthscale is not None and len(wishes.lengthscale) > 1:
        raise InputError("with --geo, --lengthscale is one number, in kilometres on the globe")
    where = tuple(features.index(each) for each in wishes.geo)
    others = tuple(i for i in range(len(features)) if i not in where)
    distance = wishes.lengthscale[0] if wishes.lengthscale else _GLOBE_SHARE * EARTH_RADIUS
    groups = [Group(where if others or where != (0, 1) else None, distance, radius=EARTH_RADIUS)]
    if others:
        groups.append(Group(others, starting_lengthscale(X[:, others], _SPREAD_SHARE, wishes.ard)))
    return starting_kernel(groups, variance, kind)


def copies_on_globe(X: np.ndarray, y: np.ndarray, globe: tuple[str, str] | None, features: Sequence[str]) -> np.ndarray:
    """Which observations (n,) repeat another one under a different longitude, and so are none: the accessor's rule."""
    if globe is None or not set(globe) <= set(features):
        return np.zeros(len(y), dtype=bool)
    from ..interop.xarray_coordinates import Axis, copies

    roles = dict(zip(globe, ("latitude", "longitude"), strict=True))
    return copies(X, y, tuple(Axis(name, roles.get(name, "other")) for name in features))


def globe_of(kernel: Kernel, features: Sequence[str]) -> tuple[str, str] | None:
    """The features that a written kernel takes for latitude and longitude."""
    pairs = [each for each in geographic_columns(kernel, tuple(range(len(features)))) if len(each) == 2]
    return (features[pairs[0][0]], features[pairs[0][1]]) if pairs else None


def _lengthscale(wishes: Wishes, X: np.ndarray) -> float | tuple[float, ...]:
    given, p = wishes.lengthscale, X.shape[1]
    if given is None:
        return starting_lengthscale(X, _SPREAD_SHARE, wishes.ard)
    if len(given) not in (1, p):
        raise InputError(f"--lengthscale has {len(given)} values for {p} features; give one, or one for each")
    if not wishes.ard and len(given) > 1:
        raise InputError(f"--no-ard is one lengthscale for all features, --lengthscale has {len(given)} values")
    return given[0] if not wishes.ard or p == 1 else given if len(given) == p else given * p


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
