"""The prior of the ERA5 studies: Matérn 3/2 in chordal distance, a constant or quadratic mean, in kelvin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from cagp.datasets import era5_grid
from cagp.hyperparameters import fit
from cagp.kernels import Geographic, Matern32
from cagp.means import Constant, Mean, Polynomial
from cagp.prior import Prior

from .machine import Forecast, default_device, measure
from .study import Comparison, Presentation, Study, Tables


@dataclass(frozen=True)
class PluggedIn(Mean):
    """A mean estimated by least squares and then taken as if it had been known, as the paper does."""

    mean: Mean

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        return self.mean.fit(X, y)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return self.mean(X)


MEANS: dict[str, Mean] = {
    "constant": PluggedIn(Constant()),
    "detrended": PluggedIn(Polynomial(degree=2, columns=(0,))),
}
"""The paper's two prior means: the average of the training data, and a quadratic polynomial of latitude fitted to
them by least squares (the supplement's "detrended data")."""

IN_WORDS = {"constant": "constant mean", "detrended": "quadratic mean in latitude"}


@dataclass(frozen=True)
class Era5Prior:
    """``mean`` is a key of ``MEANS``; ``amplitude`` and ``noise_std`` in kelvin, ``lengthscale`` in Earth radii."""

    mean: str
    amplitude: float
    lengthscale: float
    noise_std: float

    def prior(self) -> Prior:
        """The prior, its mean still to be filled in from the data."""
        kernel = Geographic(Matern32(self.lengthscale, self.amplitude**2))
        return Prior(kernel, mean=MEANS[self.mean], noise_variance=self.noise_std**2)


KNOWN = Era5Prior("constant", amplitude=11.1, lengthscale=0.174, noise_std=1.17)
"""Maximum likelihood on the 72 × 144 grid with the constant mean, from an independent fit, to three digits."""

KNOWN_NEGATIVE_LOG_LIKELIHOOD = 2.183
"""−log p / n at that maximum."""

_KNOWN_GRID = (72, 144)
_START = {"lengthscale": 0.2, "variance": 100.0}
_DIGITS = 6
_EVALUATIONS = 15
"""Evaluations of the likelihood that one start usually takes."""


@dataclass(frozen=True)
class HyperparametersConfig:
    """Fit to a grid of ``n_lat`` × ``n_lon`` points, for each of the prior means ``means``; ``restarts`` random
    starts beside the usual one; ``tolerance`` for the gradient of log p / n.
    """

    n_lat: int
    n_lon: int
    restarts: int
    means: tuple[str, ...] = tuple(MEANS)
    tolerance: float = 1e-4


@dataclass(frozen=True)
class HyperparametersPiece:
    """One prior mean."""

    mean: str


class Era5Hyperparameters(Study[HyperparametersConfig, HyperparametersPiece]):
    """The exact likelihood of the whole grid."""

    name = "era5-hyperparameters"
    title = "ERA5: maximum-likelihood hyperparameters"
    shows = 'Section "ERA5 Regression", the prior: Matérn 3/2, marginal likelihood on a coarse grid'
    scales: ClassVar[Mapping[str, HyperparametersConfig]] = {
        "quick": HyperparametersConfig(36, 72, restarts=0),
        "paper": HyperparametersConfig(*_KNOWN_GRID, restarts=1),
    }

    def pieces(self, config: HyperparametersConfig) -> Mapping[str, HyperparametersPiece]:
        return {mean: HyperparametersPiece(mean) for mean in config.means}

    def side_by_side(self, asked: int) -> int:
        return 1 if default_device().type == "cuda" else asked

    def forecast(self, config: HyperparametersConfig, pieces: Sequence[HyperparametersPiece]) -> Forecast:
        n = config.n_lat * config.n_lon
        rates = measure(1, default_device())
        # per evaluation: a factor, an inverse (twice its cost), and the kernel with its derivatives
        evaluation = 3 * rates.factor(n) + 6 * rates.assemble(n)
        evaluations = _EVALUATIONS * (1 + config.restarts) + 6  # the last for the standard errors
        return Forecast(len(pieces) * evaluations * evaluation, 2 * 8 * n**2)

    def run(self, config: HyperparametersConfig, piece: HyperparametersPiece, seed: int) -> Tables:
        grid = era5_grid(config.n_lat, config.n_lon)
        start = Prior(Geographic(Matern32(**_START)), mean=MEANS[piece.mean], noise_variance=1.0)
        result = fit(
            start,
            grid.X,
            grid.y,
            likelihood="exact",
            n_restarts=config.restarts,
            tolerance=config.tolerance,
            seed=seed,
            device=default_device(),
            progress=False,
        )
        variance, lengthscale, noise = (
            result.values[f"{name}"]
            for name in ("kernel.kernel.variance", "kernel.kernel.lengthscale", "noise_variance")
        )
        errors = result.standard_errors or {}
        row = {
            "mean": piece.mean,
            "n": result.size,
            "amplitude": variance**0.5,
            "lengthscale": lengthscale,
            "noise_std": noise**0.5,
            # s.e.(√θ) = s.e.(θ) / (2 √θ)
            "amplitude_error": errors["kernel.kernel.variance"] / (2 * variance**0.5),
            "lengthscale_error": errors["kernel.kernel.lengthscale"],
            "noise_std_error": errors["noise_variance"] / (2 * noise**0.5),
            "negative_log_likelihood": result.negative_log_likelihood_per_point,
            "evaluations": len(result.trace),
            "message": result.message,
        }
        return {"table": pd.DataFrame([row])}

    def present(self, config: HyperparametersConfig, tables: Tables) -> Presentation:
        table = tables["table"]
        rows = [
            [
                IN_WORDS[row.mean],
                f"{row.amplitude:.4g} ± {row.amplitude_error:.2g}",
                f"{row.lengthscale:.4g} ± {row.lengthscale_error:.2g}",
                f"{row.noise_std:.4g} ± {row.noise_std_error:.2g}",
                f"{row.negative_log_likelihood:.4f}",
            ]
            for row in table.itertuples()
        ]
        known = [f"{KNOWN.amplitude:g}", f"{KNOWN.lengthscale:g}", f"{KNOWN.noise_std:g}"]
        rows.append(["constant mean, 72 × 144, independent fit", *known, f"{KNOWN_NEGATIVE_LOG_LIKELIHOOD:g}"])
        same = (config.n_lat, config.n_lon) == _KNOWN_GRID
        return Presentation(
            figures={},
            comparisons=[
                Comparison(
                    f"Maximum likelihood on the {config.n_lat} × {config.n_lon} grid (± standard error)",
                    ["prior mean", "amplitude (K)", "lengthscale (Earth radii)", "noise std (K)", "−log p / n"],
                    rows,
                )
            ],
            remarks=[
                _agreement(table)
                if same
                else "This grid is coarser than the paper's 72 × 144, so that the fit takes seconds; its maximum is "
                "another one, and all studies at this scale use it.",
                "Distances are chords between points on the unit sphere. The mean is filled in first (average, or "
                "least squares) and held; the paper prints no hyperparameters.",
                *(f"{IN_WORDS[row.mean]}: {row.message}" for row in table.itertuples()),
            ],
        )


def _agreement(table: pd.DataFrame) -> str:
    ours = table[table["mean"] == "constant"].iloc[0]
    known = {"amplitude": KNOWN.amplitude, "lengthscale": KNOWN.lengthscale, "noise_std": KNOWN.noise_std}
    worst = max(abs(ours[name] / value - 1) for name, value in known.items())
    return f"The constant-mean fit is within {100 * worst:.1f}% of the independent one in all hyperparameters."


def fitted_priors(tables: Tables) -> tuple[Era5Prior, ...]:
    """The fitted priors from the tables of this study, to six digits, so that rounding makes no new configuration."""
    return tuple(
        Era5Prior(row.mean, *(_rounded(value) for value in (row.amplitude, row.lengthscale, row.noise_std)))
        for row in tables["table"].itertuples()
    )


def _rounded(value: float) -> float:
    return float(np.format_float_scientific(value, _DIGITS - 1))
