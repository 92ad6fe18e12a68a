"""What must hold whatever comes in: finite numbers, error bars that are not negative, documented exceptions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import cagp
from cagp.errors import DataWarning
from cagp.hyperparameters import FitWarning

PROBABILITIES = (0.001, 0.025, 0.25, 0.5, 0.75, 0.975, 0.999)


def numbers(array: Any, what: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """An array that came out, if it is finite and of that shape."""
    values = np.asarray(array.detach().numpy() if isinstance(array, torch.Tensor) else array, dtype=np.float64)
    assert shape is None or values.shape == shape, f"{what} has shape {values.shape}, not {shape}"
    assert np.isfinite(values).all(), f"{what} is not finite: {values.ravel()[:6]}"
    return values


def check_prediction(prediction: Any, draws: bool = True) -> None:
    """Finite, not negative, ordered, between 0 and 1; the parts agree with each other."""
    T = len(prediction)
    mean = numbers(prediction.mean, "mean", (T,))
    std, variance = numbers(prediction.std, "std", (T,)), numbers(prediction.variance, "variance", (T,))
    assert (variance >= 0).all(), f"negative variance {variance.min()}"
    assert (std >= 0).all(), f"negative std {std.min()}"
    assert np.allclose(std**2, variance, rtol=1e-4, atol=1e-300), "std is not the root of the variance"
    quantiles = numbers(prediction.quantile(PROBABILITIES), "quantiles", (T, len(PROBABILITIES)))
    digits = 4 * np.finfo(float).eps * np.abs(quantiles[:, 1:])
    assert (np.diff(quantiles, axis=1) >= -digits).all(), f"quantiles are not ordered: {quantiles[0]}"
    lower, upper = (numbers(each, "interval", (T,)) for each in prediction.interval(0.9))
    assert (lower <= upper).all(), "an interval ends before it begins"
    assert ((quantiles[:, 1] <= lower) & (upper <= quantiles[:, 5])).all(), "the 90% interval is not within the 95% one"
    if (std > 0).all():
        probability = numbers(prediction.cdf(mean), "cdf", (T,))
        assert ((probability >= 0) & (probability <= 1)).all(), "a probability is not one"
        density = np.asarray(prediction.log_density(mean))
        assert not np.isnan(density).any(), "log density is NaN"
    if draws:
        numbers(prediction.sample(2, seed=1), "draws", (2, T))


def lawful(problem: Callable[..., str], *arguments: Any, told: bool = False) -> str:
    """What became of a problem: done, or refused in words that cagp documents. Anything else is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", DataWarning)
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)  # by torch itself
        try:
            return problem(*arguments)
        except cagp.CagpError as error:
            sentence = str(error)
            assert len(sentence) > 20, f"not a sentence: {sentence!r}"
            return f"refused: {type(error).__name__}" + (f": {sentence[:90]}" if told else "")
