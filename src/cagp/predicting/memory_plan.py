"""How much memory a prediction takes, and how many test points therefore go at once: the only place that counts it."""

from __future__ import annotations

from collections.abc import Sequence

from ..gram.weighted import STRIP
from ..stopping import Rule
from ..support.memory import require
from ..support.validation import count
from .conditioned import Conditioned

# Numbers per test and training point while weights are certified: them, V, their product with G and temporaries.
_CERTIFICATE = 6
_RULE = 16  # the same while a stopping rule asks for bounds, beside what the solver keeps for its next iteration
_BOUNDS = 12  # the same while bounds are computed afterwards
_MEANS = 2  # the same for means alone: V and a temporary
_REMEDY = "predict fewer points at a time, or raise memory_budget"


class MemoryPlan:
    """What predictions from ``components`` of a model may take together: their budget less what all of them hold."""

    def __init__(self, components: Sequence[Conditioned]) -> None:
        self._first = components[0]
        held = sum(each.gram.budget - each.gram.working_budget + each.prepared.held_bytes for each in components)
        if len(components) > 1:
            remedy = "raise memory_budget, or fit with uncertainty=False or mixture=False"
            require(held, self._first.gram.budget, f"what {len(components)} components of a model hold", remedy)
        self._spare = max(0, self._first.gram.budget - held)
        self._item = self._first.gram.dtype.itemsize
        self._numbers = [_numbers(each) for each in components]  # that a test point takes

    def batch(self, T: int, asked: int | None, rule: Rule | None = None) -> int:
        """How many of T test points are solved at once: ``asked`` if that fits, or what fits."""
        numbers = max(self._numbers)
        return self._fit(T, asked, numbers if rule is None else max(numbers, _RULE * self._first.gram.size))

    def keeps(self, T: int) -> bool:
        """Whether the weights of T test points are kept, those of all components, for what may be asked later."""
        if len(self._numbers) == 1:
            return True
        return T * self._item * sum(self._numbers) <= self._spare

    def means(self, T: int) -> int:
        """How many of T test points are multiplied with coefficients at once."""
        return self._fit(T, None, _MEANS * self._first.gram.size)

    def bounds(self, T: int, held: int) -> int:
        """How many of T test points get bounds at once: rows of length d, even where few weights are not zero.

        ``held`` are the bytes of what the prediction has kept.
        """
        return min(T, max(1, (self._spare - held) // (_BOUNDS * self._first.gram.size * 8)))

    def _fit(self, T: int, asked: int | None, numbers: int) -> int:
        per_point = max(1, numbers) * self._item
        if asked is not None:
            size = min(count(asked, "batch_size", minimum=1), T)
            require(size * per_point, self._spare, f"a batch of {size} test points", _REMEDY)
            return size
        require(per_point, self._spare, "a single test point", _REMEDY)
        return min(T, self._spare // per_point)

    def require_dense_weights(self, T: int) -> None:
        """Refuse the weights of T test points as a dense matrix where they do not fit."""
        self._require(2 * T * self._first.gram.size, f"the weights of {T} test points as a dense matrix")

    def require_covariance(self, T: int) -> None:
        """Refuse the covariance between T test points where it does not fit."""
        self._require(5 * T * T + 3 * T * self._first.gram.size, f"the covariance of {T} test points")

    def require_averages(self, m: int, points: int, entries: int) -> None:
        """Refuse the covariance of m averages over so many points, with that many ``entries`` of sparse weights."""
        self._require(7 * m * m + 2 * m * min(points, STRIP) + 8 * entries, f"the covariance of {m} averages")

    def _require(self, numbers: int, what: str) -> None:
        require(numbers * self._item, self._first.gram.working_budget, what, "predict fewer points at a time")


def _numbers(component: Conditioned) -> int:
    """How many numbers a test point takes, without a stopping rule."""
    numbers = component.prepared.numbers_per_test_point
    return max(numbers, _CERTIFICATE * component.gram.size) if component.recipe.certifies else numbers
