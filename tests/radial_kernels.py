"""The built-in functions of the distance. A list of examples that are compared with something has all of them."""

from __future__ import annotations

from collections.abc import Iterable

from cagp import kernels
from cagp.kernels import Kernel, Radial

_NAMED = vars(kernels).values()
RADIAL = [each for each in _NAMED if isinstance(each, type) and issubclass(each, Radial) and each is not Radial]
COMPILED = [each for each in RADIAL if each.scalar_profile is not None]
FUSED = [each for each in RADIAL if each.gpu_profile is not None]


def names_without(kinds: Iterable[type[Kernel]], examples: Iterable[Kernel]) -> list[str]:
    """The names of those kinds that are not on their own among the examples."""
    there = {type(each) for each in examples}
    return [each.__name__ for each in kinds if each not in there]
