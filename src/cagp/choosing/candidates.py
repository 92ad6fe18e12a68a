"""Which priors are tried: kernels of different roughness, with a constant or a linear trend, and with turned axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError
from ..hyperparameters.directions import map_radial, turned
from ..hyperparameters.starting_prior import NOISE_SHARE, Group, scale_of, starting_kernel
from ..kernels import RBF, Kernel, Matern12, Matern32, Matern52, Radial, RationalQuadratic, Rotated, Spherical, Varying
from ..means import Constant, Mean, Polynomial, Zero
from ..prior import Prior

KINDS: dict[str, type[Radial]] = {
    "matern32": Matern32,
    "matern12": Matern12,
    "matern52": Matern52,
    "rbf": RBF,
    "rationalquadratic": RationalQuadratic,
    "spherical": Spherical,
}
"""By name; the first is tried first, and the others start from where it ended."""

SHORT_AND_LONG = "short and long"
"""Matérn 3/2 of a short range plus Matérn 1/2 of a long one; from a smoother kernel, Matérn 5/2 plus Matérn 3/2."""

_PAIR, _SMOOTH_PAIR = ("matern32", "matern12"), ("matern52", "matern32")

DEFAULT_KINDS = ("matern32", "matern12", "matern52", "rbf", SHORT_AND_LONG)

PER_COLUMN = 10
"""So many observations for each column are needed for a lengthscale of its own."""

_LONGER = 10.0

# A start along one column: its lengthscale and those of the others in spreads, and its part of the variance.
_ALONG, _ACROSS, _ALONE = 2.0, 1e3, 0.25

_BEYOND = 10.0  # ranges of a column
_FEWEST_VALUES = 8  # A column with fewer different values is one of categories, or nearly
# Columns whose spreads differ by more than this factor are not measured alike, and directions between them no angles
# that one could read.
_ALIKE = 10.0


@dataclass(frozen=True)
class CandidatePrior:
    """A prior to start a fit from: the ``kernel`` and the ``trend`` in words, and the hyperparameters ``fixed``.

    ``varies`` says in words what has a pattern, "" where nothing has.
    """

    kernel: str
    trend: str
    start: Prior
    fixed: tuple[str, ...] = ()
    varies: str = ""

    @property
    def name(self) -> str:
        """How a table calls it."""
        return f"{self.kernel}, {self.trend}{self.varies and ', varying ' + self.varies}"

    def starting_at(self, prior: Prior) -> CandidatePrior:
        """The same, to be fitted from other values."""
        return replace(self, start=prior)

    def holding(self, fix: str | Sequence[str]) -> CandidatePrior:
        """The same with more hyperparameters held at their values."""
        return replace(self, fixed=(*self.fixed, *([fix] if isinstance(fix, str) else fix)))

    def with_trend(self, trend: str) -> CandidatePrior:
        """The same with another trend, by its name."""
        return replace(self, trend=trend, start=replace(self.start, mean=TRENDS[trend]))

    def with_patterns(self, prior: Prior, varies: str) -> CandidatePrior:
        """The same with a prior that has patterns in what ``varies``."""
        fixed = self.fixed
        if isinstance(prior.kernel, Varying):  # the kernel is one further in
            fixed = tuple(re.sub(r"^kernel\b", "kernel.kernel", name) for name in fixed)
        return replace(self, start=prior, fixed=fixed, varies=varies)

    def from_values_of(self, fitted: Prior, kind: str) -> CandidatePrior:
        """A candidate with the kernel of another ``kind``, that starts where this one ended."""
        fixed = self.fixed
        if kind == SHORT_AND_LONG:
            inside = [name for name in fixed if name.startswith("kernel")]
            both = [name.replace("kernel", f"kernel.kernels[{i}]", 1) for i in range(2) for name in inside]
            fixed = (*(name for name in fixed if name not in inside), *both)
        return CandidatePrior(kind, self.trend, replace(fitted, kernel=in_kind(fitted.kernel, kind)), fixed)

    def within(self, spreads: float, spread: np.ndarray) -> CandidatePrior:
        """The same, started with lengthscales of at most so many times the ``spread`` (p,) of their columns.

        A kernel of another kind may need a column that hardly matters to this one, and beyond some spreads its
        likelihood is flat: there is no way back.
        """
        most = spreads * np.where(spread > 0, spread, np.inf)

        def nearer(part: Radial) -> Radial:
            if np.shape(part.lengthscale) != spread.shape:
                return part
            return replace(part, lengthscale=tuple(np.minimum(part.lengthscale, most).tolist()))

        return self.starting_at(replace(self.start, kernel=map_radial(self.start.kernel, nearer)))

    def long_along(self, column: int, spread: np.ndarray, scale: float) -> CandidatePrior:
        """The same sum, started so that its long part varies along one column alone.

        ``spread`` (p,) is that of the columns, ``scale`` that of the observations. A sum has many optima: what a column
        does by itself, and not together with others, is best found from a start where it is alone.
        """
        short, long = self.start.kernel.kernels  # type: ignore[attr-defined]
        # along a column that is constant any lengthscale will do
        scales = np.where(np.arange(len(spread)) == column, _ALONG, _ACROSS) * np.where(spread > 0, spread, 1.0)
        alone = replace(long, lengthscale=tuple(scales.tolist()), variance=_ALONE * scale)
        return self.starting_at(replace(self.start, kernel=short + alone))

    @property
    def is_sum_by_columns(self) -> bool:
        """Whether it is a sum whose parts have a lengthscale for each column."""
        parts = getattr(self.start.kernel, "kernels", ())
        scaled = [isinstance(part, Radial) and isinstance(part.lengthscale, tuple) for part in parts]
        return self.kernel == SHORT_AND_LONG and len(scaled) == 2 and all(scaled)

    def rotated(self, fitted: Prior) -> CandidatePrior:
        """The same at fitted values with axes that can be turned; what it holds keeps its values under new names."""
        kernel, places = turned(fitted.kernel)
        inside = "|".join(map(re.escape, places))
        fixed = tuple(re.sub(rf"^({inside})(?=[.\[])", r"\1.kernel", name) for name in self.fixed)
        return replace(self, kernel=f"{self.kernel} rotated", start=replace(fitted, kernel=kernel), fixed=fixed)


TRENDS: dict[str, Mean] = {"zero": Zero(), "constant": Constant(), "linear": Polynomial(1), "quadratic": Polynomial(2)}


def first_candidate(
    y: np.ndarray,
    kernel: Kernel | str | None,
    mean: Mean | None,
    noise: float | np.ndarray | None,
    groups: Sequence[Group],
) -> CandidatePrior:
    """Where a fit to observations y (n,) starts: with the kernel as given, or Matérn 3/2."""
    fixed: tuple[str, ...] = ()
    scale = scale_of(y)
    if isinstance(kernel, Kernel):
        start, name = kernel, "as given"
    else:
        name = kernel or DEFAULT_KINDS[0]
        start, fixed = starting_kernel(groups, scale, Matern32)
        start = start if name == DEFAULT_KINDS[0] else in_kind(start, name)
    level: float | np.ndarray = NOISE_SHARE * scale if noise is None else noise
    trend = "as given" if mean is not None else "constant"
    return CandidatePrior(name, trend, Prior(start, mean=mean or TRENDS["constant"], noise_variance=level), fixed)


def in_kind(kernel: Kernel, kind: str) -> Kernel:
    """The kernel with radial parts of another kind, and the same lengthscales and variances."""
    if kind == SHORT_AND_LONG:
        short, long = (in_kind(kernel, each) for each in (_SMOOTH_PAIR if is_smooth(kernel) else _PAIR))
        return _scaled(short, 1.0, 0.5) + _scaled(long, _LONGER, 0.5)
    if kind not in KINDS:
        raise InputError(f"kernel must be a kernel, or one of {', '.join((*KINDS, SHORT_AND_LONG))}; got {kind!r}")
    return map_radial(kernel, lambda part: KINDS[kind](part.lengthscale, part.variance))


def _scaled(kernel: Kernel, longer: float, share: float) -> Kernel:
    """The kernel with all lengthscales times ``longer``, and the variance of its first part times ``share``."""
    first = [True]

    def change(part: Radial) -> Radial:
        scales = np.multiply(part.lengthscale, longer)
        variance = part.variance * (share if first[0] else 1.0)
        first[0] = False
        lengthscale = float(scales) if scales.ndim == 0 else tuple(scales.tolist())
        return replace(part, lengthscale=lengthscale, variance=variance)

    return map_radial(kernel, change)


def is_short_and_long(kernel: Kernel, X: np.ndarray) -> bool:
    """Whether the first half of the parts of a sum reaches less far than the second one, along every column of X."""
    spans, scales = np.ptp(X, axis=0), list[np.ndarray]()
    for part in kernel.walk(range(X.shape[1])):
        if isinstance(part.kernel, Radial):
            reach = spans[list(part.columns)] if part.columns else np.array([np.inf])
            scale = np.asarray(part.kernel.lengthscale)
            # beyond the data all lengthscales are alike
            scales.append(np.minimum(scale, _BEYOND * (reach if scale.ndim and part.columns else reach.max())))
    half = len(scales) // 2
    pairs = zip(scales[:half], scales[half:], strict=True)
    return half > 0 and all(bool((short <= long).all()) for short, long in pairs)


def kinds_of(kernel: Kernel) -> list[str]:
    """The names of its radial parts, each once."""
    names = {kind: name for name, kind in KINDS.items()}
    parts = (type(part.kernel) for part in kernel.walk())
    return [names[part] for part in dict.fromkeys(parts) if part in names]


def is_smooth(kernel: Kernel) -> bool:
    """Whether all its parts are smoother than Matérn 3/2."""
    kinds = set(kinds_of(kernel))
    return bool(kinds) and kinds <= {"matern52", "rbf"}


def is_rotated(kernel: Kernel) -> bool:
    """Whether any part of the kernel has turned axes."""
    return any(isinstance(part.kernel, Rotated) for part in kernel.walk())


def unlike_columns(kernel: Kernel, X: np.ndarray) -> str:
    """Why the columns X (n, p) that would be turned are not alike; "" where they are, or where there are none."""
    for part in turned(kernel)[0].walk(range(X.shape[1])):
        if not isinstance(part.kernel, Rotated):
            continue
        columns = X[:, list(part.columns)]
        if min(len(np.unique(column)) for column in columns.T) < _FEWEST_VALUES:
            return "a column has a few values only"
        spread = columns.std(axis=0)
        if spread.max() > _ALIKE * spread.min():
            return "the spreads of the columns differ by more than a factor of ten"
    return ""
