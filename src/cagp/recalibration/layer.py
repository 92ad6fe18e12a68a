"""A model around another one: the same weights, and predictions that mean something else.

A further kind of layer is one file: what it learns (``Learned``, which can be saved), the model with it
(``LayeredModel``) and its predictions (``Layer``). ``saving.layers`` has the list of those that can be loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import torch

from ..errors import InputError
from ..fields import AveragePrediction, Simulation, Simulator, Wanted, wanted
from ..predicting.status import Status
from ..prediction import Guarantee, Prediction
from ..support.convert import Output
from ..support.validation import ArrayLike, as_float64

if TYPE_CHECKING:
    from ..left_out import LeftOut
    from ..model import Model
    from ..saving import About


class Learned(ABC):
    """What a layer has learned: all that is needed to put it around a model again. ``name`` is that of the layer."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def in_words(self) -> str:
        """What was learned, and from how much, in a few words."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """When the error bars hold."""

    @abstractmethod
    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """As plain JSON values; ``arrays`` is given those of float64 and int64 numbers, by name."""

    @classmethod
    @abstractmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Self:
        """The same, from what ``to_json`` gave, for a model of ``size`` observations; nothing is taken on trust."""

    def after(self, added: int, held: Guarantee) -> Self:
        """The same when so many observations were added to the model inside, whose guarantee is then ``held``."""
        return self


def saved_array(arrays: Mapping[str, np.ndarray], name: str, dtype: str) -> np.ndarray:
    """The array of that name (n,), if it is there and of that type."""
    array = arrays.get(name)
    if array is None or array.ndim != 1 or str(array.dtype) != dtype:
        raise InputError(f"{name} must be an array of {dtype} numbers in the data file")
    return array


class Predicting(Protocol):
    """A model of any kind."""

    @property
    def plain(self) -> Model: ...

    @property
    def guarantee(self) -> Guarantee: ...

    def predict(self, *arguments: Any, **settings: Any) -> Prediction: ...

    def predict_mean(self, X_test: ArrayLike) -> Any: ...

    def over(self, prediction: Prediction, X_test: ArrayLike) -> Prediction: ...

    def averaged(self, X_test: ArrayLike, asked: Wanted, **settings: Any) -> AveragePrediction: ...

    def simulator(self, X_test: ArrayLike, *, method: str = "auto") -> Simulator: ...

    def left_out(self, *arguments: Any, **settings: Any) -> LeftOut: ...

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> Predicting: ...


class LayeredModel(ABC):
    """A model around another one, made of what was ``learned``.

    ``inner`` is the model that it wraps, ``plain`` the innermost one, a ``Model`` that knows its prior alone.
    """

    learned: Learned
    learns: ClassVar[type[Learned]]
    """What ``learned`` is an instance of."""

    def __init__(self, inner: Predicting, learned: Any) -> None:
        self.inner = inner
        self.plain: Model = inner.plain
        self.learned = learned

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of its predictions hold."""
        return self.learned.guarantee

    def predict(self, X_test: ArrayLike, **settings: Any) -> Prediction:
        """The prediction at X_test (T, p); ``settings`` are those of ``Model.predict``."""
        test, _ = self.plain.test_points(X_test)
        return self.wrapped(self.inner.predict(X_test, **settings), test, Output.like(X_test))

    def over(self, prediction: Prediction, X_test: ArrayLike) -> Prediction:
        """A prediction of the plain model at X_test (T, p), whenever it was made, as this one means it."""
        test, _ = self.plain.test_points(X_test)
        return self.wrapped(self.inner.over(prediction, X_test), test, Output.like(X_test))

    @abstractmethod
    def wrapped(self, prediction: Prediction, test: torch.Tensor, convert: Output) -> Prediction:
        """A prediction of the inner model at ``test`` (T, p) as this one means it."""

    def average(
        self, X_test: ArrayLike, weights: ArrayLike | None = None, by: ArrayLike | None = None, **settings: Any
    ) -> AveragePrediction:
        """Averages over the points X_test (T, p), as this model means them; see ``Model.average``.

        A recalibrated model scales the errors of the field at each point by what it has learned there, and keeps how
        they go together; a mixture gives the mixture of the averages of its models. Split conformal prediction
        promises something about single observations and nothing about averages: those are the inner model's.
        """
        test, _ = self.plain.test_points(X_test)
        return self.averaged(X_test, wanted(len(test), weights, by), **settings)

    def averaged(self, X_test: ArrayLike, asked: Wanted, **settings: Any) -> AveragePrediction:
        """The functionals ``asked`` for, already checked: those of the inner model, where a layer says no more."""
        return self.inner.averaged(X_test, asked, **settings)

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The mean at X_test (T, p), shape (T,), which is that of the inner model."""
        return self.inner.predict_mean(X_test)

    def simulate(
        self, X_test: ArrayLike, n: int = 1, seed: int = 0, *, method: str = "auto", **settings: Any
    ) -> Simulation:
        """``n`` joint draws at X_test (T, p) as this model means them; see ``Model.simulate``."""
        return self.simulator(X_test, method=method).draw(n, seed, **settings)

    def simulator(self, X_test: ArrayLike, *, method: str = "auto") -> Simulator:
        """What draws fields at X_test (T, p): those of the inner model with the error bars of this one."""
        test, convert = self.plain.test_points(X_test)
        return _LayeredSimulator(self, self.inner.simulator(X_test, method=method), test, convert)

    def left_out(self, *arguments: Any, **settings: Any) -> LeftOut:
        """Training observations predicted from the others by the inner model; see ``Model.left_out``."""
        return self.inner.left_out(*arguments, **settings)

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> Self:
        """The model with further observations y (m,) at X (m, p); this one stays what it is. See ``Model.with_more``.

        What was chosen and learned stays as it was, from the observations before, and says so: hyperparameters, the
        weights of a mixture, a transform, and how much wider or narrower a recalibration makes the error bars. Learn
        it anew when the new observations are many, or of another kind.
        """
        inner = self.inner.with_more(X, y, noise_variance=noise_variance)
        added = len(inner.plain.y) - len(self.plain.y)
        return type(self)(inner, self.learned.after(added, inner.guarantee))

    def save(self, folder: str | Path, *, about: About | None = None, overwrite: bool = False) -> Path:
        """Save the model with all its layers as a folder that ``cagp.load`` reads; see ``Model.save``."""
        from ..saving import Saved, write

        return write(Saved.of(self, about), folder, overwrite=overwrite)


class _LayeredSimulator(Simulator):
    """Fields of an inner model, changed as a layer changes its predictions."""

    def __init__(self, model: LayeredModel, inner: Simulator, test: torch.Tensor, convert: Output) -> None:
        self._model, self._inner, self._test, self._convert = model, inner, test, convert

    def numbered(
        self, numbers: Sequence[int], seed: int, observed: bool, noise_variance: Any, progress: bool | None
    ) -> Simulation:
        found = self._inner.numbered(numbers, seed, observed, noise_variance, progress)
        prediction = self._model.wrapped(found.prediction, self._test, self._convert)
        if prediction is found.prediction or not isinstance(prediction, Layer):  # it means what it did
            return found
        how = f"{found.how}; margins: {self._model.learned.in_words}"
        return replace(found, fields=prediction.shaped(found.fields), prediction=prediction, how=how)


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

    @abstractmethod
    def shaped(self, draws: Any) -> Any:
        """Joint draws (n, T) of the inner prediction as draws of this one: with the margins that it has."""

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws, shape (n, T): those of the inner prediction, ``shaped``."""
        return self.shaped(self.inner.sample(n, seed))

    def _tensor(self, values: Any) -> torch.Tensor:
        """What the inner prediction says, in float64."""
        return as_float64(values, "values")
