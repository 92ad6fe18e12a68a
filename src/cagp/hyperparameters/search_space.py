"""The hyperparameters of a prior as a vector in log space, and back; angles are in radians there.

A hyperparameter is called as one reads it off the prior: ``kernel.variance``, ``kernel.lengthscale[1]``,
``kernel.kernels[0].period`` (the first term of a sum), ``kernel.kernel.lengthscale`` (inside Geographic),
``noise_variance``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InputError
from ..kernels import Kernel, NoiseByQuantity, Pattern
from ..prior import Prior
from ..support.validation import positive, real

NOISE = "noise_variance"
FACTORS = "noise_pattern.values"  # of the noise of several quantities
BOUND_FACTOR = 1e5  # without bounds, a hyperparameter may grow or shrink by so much
_DEGREES = 180.0 / np.pi
_ROUNDING = 1e-12  # a start may miss its bounds by this part: a fit that ended at a bound may begin another one


def _selected(pattern: str, names: Sequence[str], argument: str) -> list[str]:
    """The names that ``pattern`` means: a name, everything below it, or all hyperparameters of a field."""
    chosen = [n for n in names if n == pattern or n.startswith((f"{pattern}.", f"{pattern}["))]
    if not chosen:
        chosen = [n for n in names if re.sub(r"\[\d+\]$", "", n).rsplit(".", 1)[-1] == pattern]
    if not chosen:
        raise InputError(f"{argument} names {pattern!r}; the hyperparameters are {', '.join(names)}")
    return chosen


@dataclasses.dataclass(frozen=True)
class Space:
    """The free hyperparameters of ``prior``, in log space: ``names``, ``start``, ``lower`` and ``upper``, each (q,).

    Angles, which are degrees in the prior, are radians here, without bounds: any turn has an equal in the half circle.
    """

    prior: Prior
    names: tuple[str, ...]
    start: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(
        cls,
        prior: Prior,
        fix: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        fix_noise: bool = False,
    ) -> Space:
        """The hyperparameters that are not fixed, starting from their values in ``prior``."""
        values: dict[str, float] = {}
        prior.kernel.with_hyperparameters(values.setdefault)
        if np.ndim(prior.noise_variance) == 0:  # one noise per observation is data, and stays as it is
            values[NOISE] = prior.noise_variance
        if isinstance(prior.noise_pattern, NoiseByQuantity):
            values |= {f"{FACTORS}[{i}]": each for i, each in enumerate(prior.noise_pattern.values)}
        names = tuple(values)
        fixed = {NOISE} if fix_noise else set()
        for pattern in [fix] if isinstance(fix, str) else fix:
            fixed.update(_selected(pattern, names, "fix"))
        free = tuple(name for name in names if name not in fixed)
        if not free:
            raise InputError(f"there is nothing to fit: all hyperparameters ({', '.join(names) or 'none'}) are fixed")
        angles = prior.kernel.angle_names()
        limits = {
            name: (-np.inf, np.inf) if name in angles else (values[name] / BOUND_FACTOR, values[name] * BOUND_FACTOR)
            for name in free
        }
        for pattern, pair in (bounds or {}).items():
            for name in _selected(pattern, free, "bounds"):
                limits[name] = _checked_bounds(pair, name, values[name], real if name in angles else positive)

        def inside(numbers: Iterable[float]) -> np.ndarray:
            pairs = zip(free, numbers, strict=True)
            return np.array([value / _DEGREES if name in angles else np.log(value) for name, value in pairs])

        low, high = (inside(limits[name][side] for name in free) for side in (0, 1))
        return cls(prior, free, np.clip(inside(values[name] for name in free), low, high), low, high)

    @cached_property
    def _angles(self) -> np.ndarray:
        """Which of them are angles (q,)."""
        return np.isin(self.names, list(self.prior.kernel.angle_names()))

    def values(self, log_values: np.ndarray) -> list[Any]:
        """The hyperparameters themselves, from logarithms and radians (q,); of several rows (S, q), several lists."""
        return list(np.where(self._angles, log_values * _DEGREES, np.exp(log_values)).tolist())

    def slopes(self, log_values: np.ndarray) -> np.ndarray:
        """The derivatives (q,) of the hyperparameters in their logarithms, or in radians."""
        return np.where(self._angles, _DEGREES, np.exp(log_values))

    @property
    def size(self) -> int:
        """How many hyperparameters are free."""
        return len(self.names)

    def kernel(self, values: Sequence[Any]) -> Kernel:
        """The kernel with the free hyperparameters at ``values`` (q,), numbers or scalar tensors, not logarithms."""
        lookup = dict(zip(self.names, values, strict=True))
        return self.prior.kernel.with_hyperparameters(lookup.get)

    def level(self, values: Sequence[float]) -> float | np.ndarray:
        """The ``noise_variance`` of the prior with the free hyperparameters at ``values`` (q,)."""
        return values[self.names.index(NOISE)] if NOISE in self.names else self.prior.noise_variance

    def noise(self, values: Sequence[float]) -> float | np.ndarray:
        """The noise variance with the free hyperparameters at ``values`` (q,): of each quantity, where several are."""
        pattern = self._pattern(values)
        if isinstance(pattern, NoiseByQuantity):
            return np.asarray(self.level(values) * np.square(pattern.values))
        return self.level(values)

    def noise_effects(self, values: Sequence[float]) -> np.ndarray:
        """The derivatives of ``noise`` (levels,) in the free hyperparameters at ``values`` (q,), (levels, q)."""
        pattern, level = self._pattern(values), self.level(values)
        factors = np.array(pattern.values if isinstance(pattern, NoiseByQuantity) else [1.0])
        effects = np.zeros((len(factors), self.size))
        for place, name in enumerate(self.names):
            if name == NOISE:
                effects[:, place] = factors**2
            for i in [i for i in range(len(factors)) if name == f"{FACTORS}[{i}]"]:
                effects[i, place] = 2 * level * factors[i]
        return effects

    def _pattern(self, values: Sequence[float]) -> Pattern | NoiseByQuantity | None:
        pattern, lookup = self.prior.noise_pattern, dict(zip(self.names, values, strict=True))
        if not isinstance(pattern, NoiseByQuantity):
            return pattern
        return NoiseByQuantity(tuple(lookup.get(f"{FACTORS}[{i}]", each) for i, each in enumerate(pattern.values)))

    def prior_at(self, values: Sequence[float]) -> Prior:
        """The prior with the free hyperparameters at ``values`` (q,)."""
        noise: dict[str, Any] = {"noise_variance": self.level(values), "noise_pattern": self._pattern(values)}
        return dataclasses.replace(self.prior, kernel=self.kernel(values), **noise)

    def random_start(self, generator: np.random.Generator) -> np.ndarray:
        """A start (q,) within a factor of ten of the first one, uniform in log space, within the bounds; any angle."""
        reach = np.where(self._angles, np.pi / 2, np.log(10.0))
        low, high = np.maximum(self.start - reach, self.lower), np.minimum(self.start + reach, self.upper)
        return generator.uniform(low, high)


def _checked_bounds(pair: Any, name: str, start: float, check: Callable[[Any, str], float]) -> tuple[float, float]:
    try:
        low, high = pair
    except (TypeError, ValueError):
        raise InputError(f"the bounds of {name} must be a pair (low, high), got {pair!r}") from None
    low, high = check(low, f"the lower bound of {name}"), check(high, f"the upper bound of {name}")
    if not low < high:
        raise InputError(f"the bounds of {name} must be low < high, got ({low:g}, {high:g}); fix= holds it at a value")
    slack = _ROUNDING * max(abs(low), abs(high))
    if not low - slack <= start <= high + slack:
        wrong = f"{name} starts at {start:g}, outside its bounds ({low:g}, {high:g})"
        raise InputError(f"{wrong}; start the prior inside them")
    return low, high
