"""How much is to be computed, counted and not timed: the same on every machine."""

from __future__ import annotations

import operator
from dataclasses import dataclass

# As long as so many flops of a large product take: a kernel value, each coordinate beyond two, a stored number read.
KERNEL_VALUE, _COORDINATE, _READ = 210.0, 12.0, 30.0
_PER_SECOND = 3e10  # of one core, roughly: to tell seconds from minutes


@dataclass(frozen=True)
class Operations:
    """About how many operations something takes.

    ``flops`` are those of the linear algebra, ``kernel_values`` are computed once, ``gram_entries`` are read where G is
    stored and computed anew where it is not, ``stored_entries`` are what must be computed to store it.
    """

    flops: float = 0.0
    kernel_values: float = 0.0
    gram_entries: float = 0.0
    stored_entries: float = 0.0

    @classmethod
    def passes(cls, number: float, size: int, vectors: int) -> Operations:
        """So many products of G (size × size) with that many vectors each."""
        entries = number * float(size) ** 2
        return cls(flops=2 * entries * vectors, gram_entries=entries)

    @classmethod
    def each_test_point(cls, passes: float, size: int, tests: int) -> Operations:
        """Passes over a G of one's own with a vector for every test point."""
        return cls.passes(passes, size, tests) + cls(stored_entries=float(size) ** 2)

    @classmethod
    def directions(cls, passes: float, size: int, tests: int, vectors: int = 1) -> Operations:
        """Passes over a G of one's own with ``vectors`` each, which then serve all test points as directions."""
        predicting = cls(flops=4.0 * passes * vectors * size * tests, kernel_values=float(size) * tests)
        return cls.each_test_point(passes, size, vectors) + predicting

    def __add__(self, other: Operations) -> Operations:
        return Operations(*map(operator.add, vars(self).values(), vars(other).values()))

    def total(self, *, tiles: bool, coordinates: int = 2) -> float:
        """All of them as flops of a large product, with G in tiles or stored and points of so many ``coordinates``."""
        value = KERNEL_VALUE + _COORDINATE * max(0, coordinates - 2)
        half = value / 2  # G is symmetric
        gram = self.gram_entries * half if tiles else self.gram_entries * _READ + self.stored_entries * half
        return gram + self.kernel_values * value + self.flops

    def seconds(self, *, tiles: bool) -> float:
        """About how long they take on one core, G kept in tiles or stored."""
        return self.total(tiles=tiles) / _PER_SECOND
