"""Models of transformed observations, and their predictions on the scale of the observations: the outermost layer."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..fields import AveragePrediction, Wanted
from ..left_out import LeftOut
from ..posterior import UNDER_THE_PRIOR
from ..prediction import Guarantee, Prediction, values_at
from ..recalibration import Layer, LayeredModel, Learned
from ..support.convert import Output
from ..support.validation import ArrayLike, targets
from .kinds import KINDS, Transform


@dataclass(frozen=True)
class Transformation(Learned):
    """The ``transform`` of a model; ``held`` is the guarantee of the model inside, which holds on either scale."""

    name = "transform"

    transform: Transform
    held: Guarantee = UNDER_THE_PRIOR

    @property
    def in_words(self) -> str:
        return f"a model of transformed observations, {self.transform.in_words}"

    @property
    def guarantee(self) -> Guarantee:
        return self.held

    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        own = {"kind": self.transform.name} | dataclasses.asdict(self.transform)  # type: ignore[call-overload]
        return {"transform": own, "held": dataclasses.asdict(self.held)}

    def after(self, added: int, held: Guarantee) -> Transformation:
        return dataclasses.replace(self, held=held)

    @classmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Transformation:
        if not isinstance(content, dict) or set(content) != {"transform", "held"}:
            raise InputError("a transform must have exactly the entries transform and held")
        own = dict(content["transform"])
        kind = own.pop("kind", None)
        if kind not in KINDS:
            raise InputError(f"the transform {kind!r} is unknown; known are {', '.join(KINDS)}")
        wanted = {each.name for each in dataclasses.fields(KINDS[kind])}  # type: ignore[arg-type]
        if set(own) != wanted:
            raise InputError(f"the transform {kind} must have exactly the parameters {', '.join(sorted(wanted))}")
        return cls(KINDS[kind](**own), Guarantee(**content["held"]))


class TransformedModel(LayeredModel):
    """A model of observations y = g⁻¹(f + noise): ``inner`` is one of g(y), and predictions are on the scale of y.

    ``transform`` is g. ``plain``, the data that it knows and its weights are on the scale of g(y).
    """

    learned: Transformation
    learns = Transformation

    @classmethod
    def around(cls, inner: Any, transform: Transform) -> TransformedModel:
        """The layer around a model of transformed observations."""
        return cls(inner, Transformation(transform, inner.guarantee))

    @property
    def transform(self) -> Transform:
        """The map g."""
        return self.learned.transform

    def __repr__(self) -> str:
        return f"TransformedModel({self.inner!r}, {self.transform!r})"

    def wrapped(self, prediction: Prediction, test: torch.Tensor, convert: Output) -> Transformed:
        return Transformed(prediction, convert, self.transform)

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The mean at X_test (T, p), shape (T,), the same as that of ``predict``, whose variances it takes."""
        return self.predict(X_test).mean

    def averaged(self, X_test: ArrayLike, asked: Wanted, **settings: Any) -> AveragePrediction:
        raise InputError(
            "averages of transformed observations have no closed form; average simulated fields instead "
            "(model.simulate(X, 1000).fields @ weights, or cagp simulate), or fit without a transform (transform=None, "
            "or --transform none)"
        )

    def left_out(self, *arguments: Any, **settings: Any) -> LeftOut:
        """Training observations predicted from the others, on the scale of g(y); see ``Model.left_out``."""
        return self.inner.left_out(*arguments, **settings)

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> TransformedModel:
        """The model with further observations y (m,) at X (m, p); ``noise_variance`` is that of g(y)."""
        new, _ = self.plain.test_points(X, "X")
        values = self.transform.of(targets(y, len(new), self.plain.device))
        return super().with_more(X, values, noise_variance=noise_variance)

    def recalibrated(
        self, *arguments: Any, calibration: tuple[ArrayLike, ArrayLike] | None = None, **settings: Any
    ) -> TransformedModel:
        """The model with error bars that hold on its data; ``calibration`` is on the scale of the observations.

        What is learned is about g(y), inside of the transform; see ``Model.recalibrated``.
        """
        inner: Any = self.inner
        if calibration is not None:
            X, y = calibration
            observed = targets(y, len(X), self.plain.device, "calibration[1]")
            calibration = X, self.transform.of(observed, "calibration[1]")
        return TransformedModel.around(
            inner.recalibrated(*arguments, calibration=calibration, **settings), self.transform
        )


def untransformed(model: Any) -> tuple[Any, Transform | None]:
    """The model of g(y) inside, with what else is around it, and g; the model itself and None where there is no g."""
    if isinstance(model, TransformedModel):
        return model.inner, model.transform
    if not isinstance(model, LayeredModel):
        return model, None
    inner, transform = untransformed(model.inner)
    if transform is None:
        return model, None
    outer = copy.copy(model)
    outer.inner = inner
    return outer, transform


class Transformed(Layer):
    """A prediction of y = g⁻¹(f + noise) around the ``inner`` one of f, on the scale of y.

    Quantiles, intervals, probabilities and draws are those of the inner prediction, carried over. ``mean`` and ``std``
    are integrals over it: the mean of an exponential is more than the exponential of the mean, and no interval
    around the mean has equal probabilities on both sides. Before ``observed`` it is about g⁻¹(f), the median of
    observations at the same place; their mean is that of ``observed``.
    """

    def __init__(self, inner: Prediction, convert: Output, transform: Transform) -> None:
        super().__init__(inner, convert)
        self.transform = transform

    @property
    def guarantee(self) -> Guarantee:
        return self.inner.guarantee

    @property
    def mean(self) -> Any:
        """The mean on the scale of y, shape (T,)."""
        return self._convert(self._moments[0])

    @property
    def variance(self) -> Any:
        return self._convert(self._moments[1])

    @property
    def std(self) -> Any:
        return self._convert(self._moments[1].sqrt())

    @cached_property
    def _moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and variance, each (T,)."""
        centre = self.transform.inverse(self._tensor(self.inner.median))

        def powers(z: torch.Tensor) -> torch.Tensor:
            apart = self.transform.inverse(z) - centre  # from the median, so that digits of the variance are not lost
            return torch.stack([apart, apart.square()])

        first, second = self.inner.expected(powers)
        variance = torch.where(second.isfinite(), second - first.square(), torch.inf)
        # a median beyond float64 is infinite, and so is the mean
        return torch.where(centre.isfinite(), centre + first, centre), variance.clamp_min(0.0)

    def expected(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return self.inner.expected(lambda z: function(self.transform.inverse(z)))

    def quantile(self, p: ArrayLike) -> Any:
        return self._convert(self.transform.inverse(torch.as_tensor(self.inner.quantile(p), dtype=torch.float64)))

    def at_normal_score(self, score: float) -> Any:
        return self._convert(self.transform.inverse(self._tensor(self.inner.at_normal_score(score))))

    def cdf(self, values: ArrayLike) -> Any:
        y, z, known = self._carried(values)
        beyond = (y >= self.transform.upper).double()
        return self._convert(torch.where(known, self._tensor(self.inner.cdf(z)), beyond))

    def normal_score(self, values: ArrayLike) -> Any:
        y, z, known = self._carried(values)
        beyond = torch.where(y >= self.transform.upper, torch.inf, -torch.inf)
        return self._convert(torch.where(known, self._tensor(self.inner.normal_score(z)), beyond.double()))

    def log_density(self, values: ArrayLike) -> Any:
        """The log density on the scale of y at ``values`` (T,); −∞ where no observation can be."""
        y, z, known = self._carried(values)
        slope = self.transform.log_slope(torch.where(known, y, self.transform.inverse(torch.zeros_like(y))))
        return self._convert(torch.where(known, self._tensor(self.inner.log_density(z)) + slope, -torch.inf))

    def _carried(self, values: ArrayLike) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """``values`` (T,), g of them, and where that is known; 0 stands where it is not, at the ends of the scale."""
        y = values_at(values, len(self), self._tensor(self.inner.mean))
        z = self.transform.forward(y)
        known = z.isfinite() & (y >= self.transform.lower) & (y <= self.transform.upper)
        return y, torch.where(known, z, 0.0), known

    def observed(self, noise_variance: Any = None) -> Transformed:
        """The prediction of observations y; ``noise_variance`` is that of g(y), by default the prior's."""
        return Transformed(self.inner.observed(noise_variance), self._convert, self.transform)

    def shaped(self, draws: Any) -> Any:
        return self._convert(self.transform.inverse(self._tensor(draws)))
