"""How much memory a prediction takes, and how many test points therefore go at once: the only place that counts it."""

from __future__ import annotations

from ..stopping import Rule
from ..support.memory import require
from ..support.validation import count
from .conditioned import Conditioned

_CERTIFICATE = 6
"""Numbers per test and training point while weights are certified: them, V, their product with G and temporaries."""

_RULE = 12
"""The same while a stopping rule asks for bounds, and while bounds are computed afterwards."""

_MEANS = 2
"""The same for means alone: V and a temporary."""

_REMEDY = "predict fewer points at a time, or raise memory_budget"


class MemoryPlan:
    """What predictions from ``model`` may take: its budget less what is held already."""

    def __init__(self, model: Conditioned) -> None:
        self._model = model
        self._spare = max(0, model.gram.working_budget - model.prepared.held_bytes)
        self._item = model.gram.dtype.itemsize

    def batch(self, T: int, asked: int | None, rule: Rule | None = None) -> int:
        """How many of T test points are solved at once: ``asked`` if that fits, or what fits."""
        d = self._model.gram.size
        numbers = self._model.prepared.numbers_per_test_point
        if self._model.recipe.certifies:
            numbers = max(numbers, _CERTIFICATE * d)
        if rule is not None:
            numbers = max(numbers, _RULE * d)
        return self._fit(T, asked, numbers)

    def means(self, T: int) -> int:
        """How many of T test points are multiplied with coefficients at once."""
        return self._fit(T, None, _MEANS * self._model.gram.size)

    def bounds(self, T: int) -> int:
        """How many of T test points get bounds at once: rows of length d, even where few weights are not zero."""
        return min(T, max(1, self._model.gram.working_budget // (_RULE * self._model.gram.size * 8)))

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
        n_bytes = 2 * T * self._model.gram.size * self._item
        self._require(n_bytes, f"the weights of {T} test points as a dense matrix")

    def require_covariance(self, T: int) -> None:
        """Refuse the covariance between T test points where it does not fit."""
        n_bytes = (5 * T * T + 3 * T * self._model.gram.size) * self._item
        self._require(n_bytes, f"the covariance of {T} test points")

    def _require(self, n_bytes: int, what: str) -> None:
        require(n_bytes, self._model.gram.working_budget, what, "predict fewer points at a time")
