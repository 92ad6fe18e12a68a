"""How good predictions are on held-out data: accuracy, calibration, sharpness and proper scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ..errors import InputError, InputTypeError
from ..prediction import Prediction
from ..support.convert import array
from ..support.validation import ArrayLike, choice, fraction, vector
from .assessment import LEVELS

_QUANTILES = 50  # so many quantiles make up the CRPS of a prediction that is not normal


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Scores of predictions; made by ``evaluate`` or ``score``.

    Per test point, each of shape (T,): ``error`` = truth − mean, ``std``, ``z`` = error / std, ``pit``, the predicted
    probability of at most the truth. Averages, where smaller is better: ``rmse``; ``log_score``, the negative log
    density of the truth; ``crps``, the continuous ranked probability score; ``interval_score``, of the central
    ``level`` interval; ``sharpness``, the width of that interval. ``of`` says what was predicted.
    """

    of: str
    level: float
    error: np.ndarray
    std: np.ndarray
    pit: np.ndarray
    log_score: float
    crps: float
    interval_score: float
    sharpness: float

    @property
    def z(self) -> np.ndarray:
        return self.error / self.std

    @property
    def rmse(self) -> float:
        """The root mean square of the error."""
        return float(np.sqrt(np.square(self.error).mean()))

    @property
    def nll(self) -> float:
        """The average negative log likelihood of a test point: the log score by its other name."""
        return self.log_score

    def coverage(self, levels: ArrayLike) -> Any:
        """The share of test points inside their central interval at each of ``levels``, in [0, 1]; same shape."""
        nominal = np.asarray(levels, dtype=float)
        if not ((nominal >= 0) & (nominal <= 1)).all():
            raise InputError(f"levels must lie in [0, 1], got {levels!r}; for 95% write 0.95")
        inside = np.searchsorted(self._needed_levels(), nominal, side="right") / len(self.z)
        return inside if nominal.ndim else float(inside)

    def coverage_curve(self) -> tuple[np.ndarray, np.ndarray]:
        """The coverage at all levels: it is a step function, given by the levels where it rises, and its values."""
        return self._needed_levels(), np.arange(1, len(self.z) + 1) / len(self.z)

    def _needed_levels(self) -> np.ndarray:
        """The level at which each interval just holds the truth, sorted."""
        return np.sort(np.abs(2 * self.pit - 1))

    def __repr__(self) -> str:
        averages = f"rmse={self.rmse:.4g}, nll={self.nll:.4g}, crps={self.crps:.4g}"
        return f"Scores({self.of}, {len(self.z)} points, {averages})"

    def __str__(self) -> str:
        percent = f"{100 * self.level:g}%"
        rows = [
            ("RMSE", self.rmse, ""),
            ("NLL (log score)", self.nll, ""),
            ("CRPS", self.crps, ""),
            (f"interval score, {percent}", self.interval_score, ""),
            (f"sharpness, {percent}", self.sharpness, "mean width of the interval"),
            ("mean of z", float(self.z.mean()), "0 where calibrated"),
            ("mean square of z", float(np.square(self.z).mean()), "1 where calibrated"),
        ]
        for p in LEVELS:
            noise = (p * (1 - p) / len(self.z)) ** 0.5
            rows.append((f"coverage at {100 * p:g}%", self.coverage(p), f"{p:g} ± {noise:.2g} where calibrated"))
        lines = [f"{len(self.z)} test points, {self.of}"]
        lines += [f"  {name:<22}{value:>12.4f}  {note}".rstrip() for name, value, note in rows]
        return "\n".join(lines)


def evaluate(
    posterior: Prediction,
    truth: ArrayLike,
    of: str = "observed",
    *,
    noise_variance: ArrayLike | None = None,
    level: float = 0.95,
) -> Scores:
    """Score a prediction against the ``truth`` (T,) at its test points.

    ``of`` says what the truth is: "observed" for noisy observations y, for which noise of ``noise_variance``, one
    number or (T,), by default the prior's, is added unless ``observed()`` has; "latent" for values of f itself.
    """
    if not isinstance(posterior, Prediction):
        remedy = "score(mean, std, truth) takes the predictions of anything else"
        raise InputTypeError(f"posterior must be a prediction of cagp, got {type(posterior).__name__}; {remedy}")
    choice(of, "of", ("latent", "observed"))
    has_noise = posterior.includes_noise
    if has_noise and of == "latent":
        raise InputError(
            "of='latent' needs the posterior of f, but this one was made by observed() and includes noise; "
            "pass the posterior that predict() returned, or of='observed'"
        )
    if noise_variance is not None and (has_noise or of == "latent"):
        reason = "this posterior includes its noise already" if has_noise else "f has no noise"
        raise InputError(f"noise_variance cannot be used here: {reason}; leave it out")
    predicted = posterior.observed(noise_variance) if of == "observed" and not has_noise else posterior
    if predicted.is_normal:
        return score(predicted.mean, predicted.std, truth, of=of, level=level)
    return _scored(predicted, truth, of, fraction(level, "level"))


def _scored(predicted: Prediction, truth: ArrayLike, of: str, level: float) -> Scores:
    """Scores of predictions of any shape, from densities and quantiles; infinite ones have no part in the CRPS."""
    values = vector(truth, "truth", size=len(predicted))
    mu, sigma, pit = (vector(each, "values") for each in (predicted.mean, predicted.std, predicted.cdf(values)))
    density = array(predicted.log_density(values))  # −∞ where no observation can be
    crps = each_crps(predicted, values).mean()
    lower, upper = (array(end) for end in predicted.interval(level))
    interval = _interval_score(values, lower, upper, level) if np.isfinite(upper - lower).all() else np.inf
    scores = (float(each) for each in (-density.mean(), crps, interval, (upper - lower).mean()))
    return Scores(of, level, values - mu, sigma, pit, *scores)


def each_crps(predicted: Prediction, truth: np.ndarray) -> np.ndarray:
    """The CRPS of each prediction, of any shape, from quantiles, without levels where one is infinite: (T,)."""
    p = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    quantiles = [(each, q) for each, q in zip(p, array(predicted.quantile(p)).T, strict=True) if np.isfinite(q).all()]
    total = sum((((truth < q) - each) * (q - truth) for each, q in quantiles), start=np.zeros(len(truth)))
    return 2 * total / len(quantiles) if quantiles else np.full(len(truth), np.inf)


def _interval_score(truth: np.ndarray, lower: np.ndarray, upper: np.ndarray, level: float) -> float:
    """The width of central intervals, and how far the truth lies outside of them times 2 / (1 − level), on average."""
    outside = np.maximum(lower - truth, 0.0) + np.maximum(truth - upper, 0.0)
    return float((upper - lower + 2 / (1 - level) * outside).mean())


def score(
    mean: ArrayLike, std: ArrayLike, truth: ArrayLike, *, of: str = "normal predictions", level: float = 0.95
) -> Scores:
    """Score normal predictions of any origin: ``mean``, ``std`` and ``truth``, each of shape (T,).

    ``level`` is that of the interval score and the sharpness; ``of`` is a word for the table.
    """
    mu = vector(mean, "mean")
    sigma, values = vector(std, "std", size=len(mu)), vector(truth, "truth", size=len(mu))
    level = fraction(level, "level")
    if (sigma <= 0).any():
        first = int((sigma <= 0).argmax())
        raise InputError(f"std must be positive, got {sigma[first]:g} at index {first}")
    half = ndtri((1 + level) / 2) * sigma
    lower, upper = mu - half, mu + half
    z = (values - mu) / sigma
    pit = ndtr(z)
    log_density = -0.5 * (np.square(z) + math.log(2 * math.pi))
    log_score = (np.log(sigma) - log_density).mean()
    crps = (sigma * (z * (2 * pit - 1) + 2 * np.exp(log_density) - 1 / math.sqrt(math.pi))).mean()
    scores = (float(each) for each in (log_score, crps, _interval_score(values, lower, upper, level), 2 * half.mean()))
    return Scores(of, level, values - mu, sigma, pit, *scores)
