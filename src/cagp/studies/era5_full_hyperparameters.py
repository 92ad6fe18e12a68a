"""Hyperparameters for the whole ERA5 field: the nearest-neighbour likelihood of windows at full resolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from ..hyperparameters import fit
from ..kernels import Geographic, Matern32
from ..prior import Prior
from .base import Comparison, Presentation, Study, Tables
from .era5_full_field import full_field, points_of
from .era5_hyperparameters import fitted_priors
from .era5_prior import IN_WORDS, KNOWN, MEANS, Era5Prior

COARSE, FITTED, FREE = "coarse", "fitted", "free"
PRIOR_WORDS = {
    COARSE: "72 × 144 grid",
    FITTED: "windows, noise held",
    FREE: "windows, noise free",
}
"""The three sets of hyperparameters, by name: what they were fitted to."""

_START = {"lengthscale": 0.06, "variance": 100.0}


@dataclass(frozen=True)
class FullHyperparametersConfig:
    """Fit to ``windows`` windows of ``side`` × ``side`` neighbouring points of the field with every ``thin``-th row
    and column, without the ``held_out`` points, each point given its ``neighbours`` nearest before it.

    ``noise_std`` in kelvin is where the noise is held, or starts where it is free.
    """

    thin: int
    windows: int
    side: int = 8
    held_out: int = 2100
    neighbours: int = 20
    mean: str = "detrended"
    noise_std: float = 0.1


@dataclass(frozen=True)
class FullHyperparametersPiece:
    """Whether the noise is fitted too."""

    free: bool


class Era5FullHyperparameters(Study[FullHyperparametersConfig, FullHyperparametersPiece]):
    """Matérn 3/2 as in all ERA5 studies; the noise held, and for comparison free."""

    name = "era5-full-hyperparameters"
    title = "ERA5, all points: hyperparameters at full resolution"
    shows = "nothing in the paper: what `era5-full` builds on"
    scales: ClassVar[Mapping[str, FullHyperparametersConfig]] = {
        "quick": FullHyperparametersConfig(thin=4, windows=80),
        "paper": FullHyperparametersConfig(thin=1, windows=160),
    }

    def pieces(self, config: FullHyperparametersConfig) -> Mapping[str, FullHyperparametersPiece]:
        return {FITTED: FullHyperparametersPiece(free=False), FREE: FullHyperparametersPiece(free=True)}

    def run(self, config: FullHyperparametersConfig, piece: FullHyperparametersPiece, seed: int) -> Tables:
        field = full_field(config.thin)
        chosen = np.setdiff1d(field.windows(config.windows, config.side, seed), field.held_out(config.held_out, seed))
        start = Prior(Geographic(Matern32(**_START)), mean=MEANS[config.mean], noise_variance=config.noise_std**2)
        result = fit(
            start,
            field.X,
            field.y,
            likelihood="nearest-neighbours",
            subset=chosen,
            n_neighbours=config.neighbours,
            fix_noise=not piece.free,
            n_restarts=0,
            standard_errors=False,
            seed=seed,
            progress=False,
        )
        row = {
            "name": FREE if piece.free else FITTED,
            "mean": config.mean,
            "n": result.size,
            "amplitude": result.values["kernel.kernel.variance"] ** 0.5,
            "lengthscale": result.values["kernel.kernel.lengthscale"],
            "noise_std": result.values.get("noise_variance", config.noise_std**2) ** 0.5,
            "negative_log_likelihood": result.negative_log_likelihood_per_point,
            "evaluations": len(result.trace),
            "message": result.message,
        }
        return {"table": pd.DataFrame([row])}

    def present(self, config: FullHyperparametersConfig, tables: Tables) -> Presentation:
        rows = [
            [
                PRIOR_WORDS[row.name],
                IN_WORDS[row.mean],
                f"{row.amplitude:.4g}",
                f"{row.lengthscale:.4g}",
                f"{row.noise_std:.3g}",
                f"{row.negative_log_likelihood:.4f}",
            ]
            for row in tables["table"].itertuples(index=False)
        ]
        known = [f"{KNOWN.amplitude:g}", f"{KNOWN.lengthscale:g}", f"{KNOWN.noise_std:g}"]
        rows.append([PRIOR_WORDS[COARSE], IN_WORDS[KNOWN.mean], *known, "–"])
        n = int(tables["table"]["n"].iloc[0])
        return Presentation(
            figures={},
            comparisons=[
                Comparison(
                    f"Nearest-neighbour likelihood of {n:,} points in {config.windows} windows of {config.side} × "
                    f"{config.side} neighbouring points, out of {points_of(config.thin):,}; below, for comparison, the "
                    "72 × 144 grid with the exact likelihood",
                    ["hyperparameters", "prior mean", "amplitude (K)", "lengthscale (Earth radii)", "noise std (K)",
                     "−log p / n"],
                    rows,
                )
            ],
            remarks=[
                "A random subset of the points would be a coarse grid again; windows of neighbouring points show the "
                "field at its own resolution, and many small ones the smooth and the rough parts of it. The held-out "
                "points are not among them.",
                _noise(config, tables["table"]),
                *(f"{PRIOR_WORDS[row.name]}: {row.message}" for row in tables["table"].itertuples(index=False)),
            ],
        )  # fmt: skip


def _noise(config: FullHyperparametersConfig, table: pd.DataFrame) -> str:
    """Why the noise is held."""
    free, held = (table[table["name"] == name].iloc[0] for name in (FREE, FITTED))
    ratios = [(row["amplitude"] / row["noise_std"]) ** 2 for row in (free, held)]
    return (
        "The field comes from a numerical model and has no measurement noise: noise stands for what a smooth prior "
        f"cannot follow. Left free, its std is {free['noise_std']:.2g} K. For `era5-full` it is held at "
        f"{config.noise_std:g} K, so that prior variance / noise variance is {ratios[1]:,.0f} and not "
        f"{ratios[0]:,.0f}: single precision suffices for Gauss-Seidel. `era5-full` has "
        "what this costs in accuracy."
    )


def full_priors(tables: Tables) -> dict[str, Era5Prior]:
    """All hyperparameters by name, those of the 72 × 144 grid among them."""
    return dict(zip(tables["table"]["name"], fitted_priors(tables), strict=True)) | {COARSE: KNOWN}
