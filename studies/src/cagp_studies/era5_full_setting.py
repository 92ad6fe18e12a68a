"""What the study of all ERA5 points stands on: the field, the study of its hyperparameters, sizes and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from cagp.datasets import era5
from cagp.hyperparameters import fit
from cagp.kernels import Geographic, Matern32
from cagp.prior import Prior
from cagp.solvers import CalibratedCG, GaussSeidel

from .era5_hyperparameters import IN_WORDS, KNOWN, MEANS, Era5Prior, fitted_priors
from .machine import default_device
from .problem import Problem, generator
from .study import Comparison, Presentation, Study, Tables

_STEP = 0.25
_ROWS, _COLUMNS = 721, 1440


@dataclass(frozen=True, eq=False)
class FullField:
    """All distinct points X (n, 2) in degrees with temperatures y (n,), row by row from the north pole to the south.

    ``latitude`` and ``longitude`` are the axes of the map, on which each pole is a row of copies of one point.
    """

    X: np.ndarray
    y: np.ndarray
    latitude: np.ndarray
    longitude: np.ndarray

    def on_map(self, values: np.ndarray) -> np.ndarray:
        """Values at the points, (n,), as a map (rows, columns)."""
        columns = len(self.longitude)
        inner = values[1:-1].reshape(-1, columns)
        return np.vstack([np.full(columns, values[0]), inner, np.full(columns, values[-1])])

    def held_out(self, n: int, seed: int) -> np.ndarray:
        """Indices of n points, drawn uniformly without repetition; a larger n begins with those of a smaller one."""
        return generator(seed, 0).permutation(len(self.y))[:n]

    def without(self, indices: np.ndarray, tested: np.ndarray) -> Problem:
        """All points but those of ``indices`` to learn from, those of ``tested`` to predict."""
        kept = np.ones(len(self.y), dtype=bool)
        kept[indices] = False
        return Problem(self.X[kept], self.y[kept], self.X[tested], self.y[tested])

    def windows(self, n: int, side: int, seed: int) -> np.ndarray:
        """Indices of the points of n windows of side × side neighbouring points, the poles apart, each point once.

        A random subset of the points would be a coarse one; windows show the field at its full resolution.
        """
        rows, columns = len(self.latitude), len(self.longitude)
        rng = generator(seed, 1)
        top, left = rng.integers(1, rows - side, n), rng.integers(0, columns, n)
        row = top[:, None, None] + np.arange(side)[:, None]
        column = (left[:, None, None] + np.arange(side)) % columns
        return np.unique(1 + (row - 1) * columns + column)


def points_of(thin: int) -> int:
    """How many distinct points there are with every ``thin``-th row and column, without reading them."""
    return ((_ROWS - 1) // thin - 1) * (_COLUMNS // thin) + 2


def map_axes(thin: int) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes from north to south and longitudes from 0° eastwards, of every ``thin``-th row and column."""
    return 90 - _STEP * np.arange(0, _ROWS, thin), _STEP * np.arange(0, _COLUMNS, thin)


def full_field(thin: int) -> FullField:
    """Every ``thin``-th row and column of the 0.25° field, both poles among them: ``thin`` divides 720."""
    whole = era5()
    row, column = (np.round(each / _STEP).astype(int) for each in (90 - whole.X[:, 0], whole.X[:, 1]))
    kept = (row % thin == 0) & (column % thin == 0)
    return FullField(whole.X[kept], whole.y[kept], *map_axes(thin))


# --- hyperparameters --------------------------------------------------------------------------------------------------


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
            terms="all",
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


# --- sizes and names --------------------------------------------------------------------------------------------------


ITERATED = (GaussSeidel.name, CalibratedCG.name)
"""The methods that read the whole Gram matrix in every iteration."""

BOUNDED = "neighbours-bounds"
"""Nearest neighbours with bounds on their computational variance, which cost three passes over the Gram matrix."""

MAP = "map"

HELD_OUT, MORE = "held-out", "more"
"""The samples: points that no method sees, and more of them for nearest neighbours, whose training set is smaller."""


@dataclass(frozen=True)
class FullSizes:
    """How much the iterative methods do.

    Gauss-Seidel in spatial blocks of ``block`` points; CG preconditioned by Nyström of ``rank``, from ``start`` nearest
    neighbours; both recorded after the iterations ``recorded``. ``memory`` in bytes is what they may take.
    """

    block: int = 1024
    rank: int = 1200
    start: int = 100
    recorded: tuple[int, ...] = (1, 2, 5, 10)
    memory: int = 40 * 2**30


@dataclass(frozen=True)
class FullConfig:
    """Every ``thin``-th row and column of the field but ``held_out`` points; ``more`` others are held out, too, where
    nearest neighbours are judged once more.

    ``neighbours`` are the numbers k at held-out points, ``map_neighbours`` that on the map. The iterative methods use
    the hyperparameters of the names ``iterated``, and need a GPU beyond ``processor_limit`` points.
    """

    thin: int
    held_out: int = 100
    more: int = 2000
    neighbours: tuple[int, ...] = (10, 30, 100, 300)
    map_neighbours: int = 40
    names: tuple[str, ...] = (FITTED, COARSE, FREE)
    iterated: tuple[str, ...] = (FITTED,)
    sizes: FullSizes = field(default_factory=FullSizes)
    processor_limit: int = 5000
    priors: tuple[Era5Prior, ...] = ()

    @property
    def d(self) -> int:
        """How many training points there are."""
        return points_of(self.thin) - self.held_out

    def prior(self, name: str) -> Era5Prior:
        """The prior with the hyperparameters of that name."""
        return self.priors[self.names.index(name)]

    def iterates(self) -> bool:
        """Whether the iterative methods can run on this machine."""
        return default_device().type == "cuda" or self.d <= self.processor_limit


# --- reading the tables -----------------------------------------------------------------------------------------------


def rows_of(
    table: pd.DataFrame, prior: str, solver: str, sample: str, k: int | None = None, m: int | None = None
) -> pd.DataFrame:
    """The rows of one method on one sample, and of one k or m where it is given."""
    chosen = (table["prior"] == prior) & (table["solver"] == solver) & (table["sample"] == sample)
    for column, value in (("k", k), ("m", m)):
        if value is not None:
            chosen &= table[column] == value
    return table[chosen]


def z_of(config: FullConfig, prior: str, rows: pd.DataFrame) -> np.ndarray:
    """Errors in units of the std of an observation."""
    z: np.ndarray = rows["error"].to_numpy() / np.hypot(rows["std"].to_numpy(), config.prior(prior).noise_std)
    return z
