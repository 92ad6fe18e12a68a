"""A model around another one: the same weights, and predictions that mean something else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..predicting.status import Status
from ..prediction import Guarantee, Prediction
from ..support.convert import Output
from ..support.validation import ArrayLike, as_float64

if TYPE_CHECKING:
    from ..left_out import LeftOut
    from ..model import Model


class Predicting(Protocol):
    """A model of any kind."""

    @property
    def plain(self) -> Model: ...

    def predict(self, *arguments: Any, **settings: Any) -> Prediction: ...

    def predict_mean(self, X_test: ArrayLike) -> Any: ...

    def left_out(self, *arguments: Any, **settings: Any) -> LeftOut: ...


class LayeredModel(ABC):
    """``inner`` is the model that it wraps, ``plain`` the innermost one, a ``Model`` that knows its prior alone."""

    def __init__(self, inner: Predicting) -> None:
        self.inner = inner
        self.plain: Model = inner.plain

    def predict(self, X_test: ArrayLike, **settings: Any) -> Prediction:
        """The prediction at X_test (T, p); ``settings`` are those of ``Model.predict``."""
        test, _ = self.plain.test_points(X_test)
        return self.wrapped(self.inner.predict(X_test, **settings), test, Output.like(X_test))

    @abstractmethod
    def wrapped(self, prediction: Prediction, test: torch.Tensor, convert: Output) -> Prediction:
        """A prediction of the inner model at ``test`` (T, p) as this one means it."""

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The mean at X_test (T, p), shape (T,), which is that of the inner model."""
        return self.inner.predict_mean(X_test)

    def left_out(self, *arguments: Any, **settings: Any) -> LeftOut:
        """Training observations predicted from the others by the inner model; see ``Model.left_out``."""
        return self.inner.left_out(*arguments, **settings)


class Layer(Prediction):
    """A prediction around an ``inner`` one, whose mean and status it has."""

    def __init__(self, inner: Prediction, convert: Output) -> None:
        self.inner, self._convert = inner, convert

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def __len__(self) -> int:
        return len(self.inner)

    @property
    def status(self) -> Status:  # type: ignore[override]
        return self.inner.status

    @property
    def includes_noise(self) -> bool:
        return self.inner.includes_noise

    @property
    def mean(self) -> Any:
        return self.inner.mean

    @property
    def variance(self) -> Any:
        return self.std**2

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    def _tensor(self, values: Any) -> torch.Tensor:
        """What the inner prediction says, in float64."""
        return as_float64(values, "values")
