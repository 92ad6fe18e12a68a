"""Studies small enough for tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imsave

from cagp.solvers import ConjugateGradient, GaussSeidel, RandomDirections
from cagp_studies import AnyStudy, Comparison, Drawing, Presentation, Study
from cagp_studies.acceleration import Acceleration, AccelerationConfig
from cagp_studies.acceleration_cases import Case as AcceleratedCase
from cagp_studies.acceleration_cases import Sizes
from cagp_studies.convergence import ConvergenceConfig, Smoothness, Synthetic
from cagp_studies.era5_full import Era5Full
from cagp_studies.era5_full_setting import Era5FullHyperparameters, FullConfig, FullHyperparametersConfig, FullSizes
from cagp_studies.era5_held_out import Era5Calibration, Era5Convergence
from cagp_studies.era5_hyperparameters import Era5Hyperparameters, HyperparametersConfig
from cagp_studies.era5_means import Era5Means, MeansConfig
from cagp_studies.era5_study import HeldOutConfig
from cagp_studies.era5_timings import Era5Timings, TimingsConfig
from cagp_studies.heaton import Heaton, HeatonConfig
from cagp_studies.hybrid import Hybrid, HybridConfig
from cagp_studies.recalibration import RecalibrationConfig, RecalibrationStudy
from cagp_studies.relocated import Relocated, RelocatedConfig
from cagp_studies.sbc import Sbc, SbcIterations
from cagp_studies.scoreboard import Scoreboard, ScoreboardConfig
from cagp_studies.simulated import Case, SimulatedConfig
from cagp_studies.study import Tables
from cagp_studies.timing import Time, TimeConfig
from cagp_studies.uci import Uci, UciCase, UciConfig


@dataclass(frozen=True)
class SquareConfig:
    """How many numbers to square, and to which power really."""

    numbers: int = 4
    power: int = 2


@dataclass(frozen=True)
class SquarePiece:
    """One number."""

    number: int


class Squares(Study[SquareConfig, SquarePiece]):
    """A study that computes nothing of interest, at once; ``computed`` remembers which pieces it was asked for."""

    name = "squares"
    title = "Squares & <cubes>"
    shows = "nothing in the paper"
    scales: ClassVar[Mapping[str, SquareConfig]] = {"quick": SquareConfig(), "paper": SquareConfig(numbers=6)}

    def __init__(self) -> None:
        self.computed: list[int] = []
        self.fails_at: int | None = None
        self.failure: BaseException = RuntimeError("the machine fell over")

    def pieces(self, config: SquareConfig) -> Mapping[str, SquarePiece]:
        return {f"number-{i}": SquarePiece(i) for i in range(config.numbers)}

    def run(self, config: SquareConfig, piece: SquarePiece, seed: int) -> Tables:
        if piece.number == self.fails_at:
            raise self.failure
        self.computed.append(piece.number)
        row = {"seed": seed, "number": piece.number, "result": (piece.number + 0.1) ** config.power, "word": "é"}
        return {"table": pd.DataFrame([row])}

    def present(self, config: SquareConfig, tables: Tables) -> Presentation:
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(tables["table"]["number"], tables["table"]["result"])
        comparison = Comparison("Sum", ["sum"], [[f"{tables['table']['result'].sum():.3f}"]])
        return Presentation({"curve": Drawing(figure, "A curve.")}, [comparison], ["Nothing differs."])


def both(config: object) -> dict[str, object]:
    """The same configuration at both scales."""
    return {"quick": config, "paper": config}


class TinySynthetic(Synthetic):
    scales = both(ConvergenceConfig((("Matern32", 0.2), ("Matern32", 0.4)), runs=3, iterations=6, n=20, side=3))  # type: ignore[assignment]


class TinySmoothness(Smoothness):
    scales = both(ConvergenceConfig((("Matern12", 0.2), ("Matern52", 0.2)), runs=3, iterations=6, n=20, side=3))  # type: ignore[assignment]


class TinySbc(Sbc):
    scales = both(
        SimulatedConfig(
            (Case(GaussSeidel.name, 5, 3), Case(ConjugateGradient.name, 5, 1), Case(RandomDirections.name, 5, 3)),
            simulations=60,
            n=30,
            side=3,
        )
    )  # type: ignore[assignment]


class TinySbcIterations(SbcIterations):
    scales = both(
        SimulatedConfig(
            (Case(GaussSeidel.name, 50, 2), Case(ConjugateGradient.name, 10, 2)), simulations=60, n=30, side=3
        )
    )  # type: ignore[assignment]


class TinyTime(Time):
    scales = both(TimeConfig(runs=2, repeats=2, iterations=(1, 5), sizes=(5, 20), n=20, side=2))  # type: ignore[assignment]


class TinyUci(Uci):
    scales = both(
        UciConfig(
            tuple(UciCase(name, 60) for name in ("concrete", "bike", "road3d")), runs=1, fit_points=30, iterations=4
        )
    )  # type: ignore[assignment]


class TinyHyperparameters(Era5Hyperparameters):
    scales = both(HyperparametersConfig(8, 16, restarts=0))  # type: ignore[assignment]


class TinyMeans(Era5Means):
    builds_on = TinyHyperparameters()
    scales = both(MeansConfig((8, 16), "dense", test=(6, 7), shown=(1, 3)))  # type: ignore[assignment]


class TinyTimings(Era5Timings):
    scales = both(TimingsConfig(3, 60, 2, (1, 3), (30, 60), (1, 2), repeats=2))  # type: ignore[assignment]


TINY_HELD_OUT = HeldOutConfig(8, 16, "tiles", draws=2, held_out=12, iterations=4, kept=(1, 4))


class TinyCalibration(Era5Calibration):
    builds_on = TinyHyperparameters()
    scales = both(TINY_HELD_OUT)  # type: ignore[assignment]


class TinyConvergence(Era5Convergence):
    builds_on = TinyHyperparameters()
    scales = both(TINY_HELD_OUT)  # type: ignore[assignment]


class TinyFullHyperparameters(Era5FullHyperparameters):
    scales = both(FullHyperparametersConfig(thin=36, windows=20, side=4, held_out=80, neighbours=8))  # type: ignore[assignment]


class TinyFull(Era5Full):
    """762 points: few enough for the iterative methods to run on the processor."""

    builds_on = TinyFullHyperparameters()
    scales = both(
        FullConfig(
            thin=36, held_out=20, more=60, neighbours=(5, 10, 20), map_neighbours=10,
            sizes=FullSizes(block=32, rank=30, start=10, recorded=(1, 3)),
        )
    )  # type: ignore[assignment]  # fmt: skip


class TinyHybrid(Hybrid):
    scales = both(
        HybridConfig(
            runs=2, sbc_runs=2, lengthscales=(0.2, 0.4), switches=(2, 5), iterations=8, n=30, side=3,
            simulations=30, sbc_n=30, sbc_side=3, sbc_cases=((5, 0), (2, 3)),
        )
    )  # type: ignore[assignment]  # fmt: skip


TINY_SIZES = Sizes(block=16, rank=20, start=10, neighbours=(5, 20), krylov=4, subsets=(20, 40), iterations=10, sweeps=2)


class TinyAcceleration(Acceleration):
    scales = both(
        AccelerationConfig(
            (
                AcceleratedCase("uneven", 80, 4, TINY_SIZES),
                AcceleratedCase("concrete", 90, 5, TINY_SIZES, fit_points=60),
                AcceleratedCase("era5", 72, 5, TINY_SIZES),
            )
        )
    )  # type: ignore[assignment]


class TinyRecalibration(RecalibrationStudy):
    scales = both(RecalibrationConfig(("stationary", "concrete"), rows=200, tests=60, runs=1))  # type: ignore[assignment]


class TinyHeaton(Heaton):
    scales = both(HeatonConfig(every=25))  # type: ignore[assignment]


class TinyRelocated(Relocated):
    scales = both(RelocatedConfig(("simulated", "era5"), every=16, places=2))  # type: ignore[assignment]


class TinyScoreboard(Scoreboard):
    scales = both(ScoreboardConfig(("concrete", "heaton-simulated"), rows=60, tests=30, parts=2))  # type: ignore[assignment]


class SmallerRecalibration(RecalibrationStudy):
    """On simulated data alone."""

    scales = both(RecalibrationConfig(("stationary",), rows=100, tests=40, runs=1))  # type: ignore[assignment]


@contextmanager
def drawn_once() -> Iterator[None]:
    """Figures are drawn once and their files hold a dot: pixels are most of the time that a tiny study takes."""

    def save(folder: Path, name: str, drawing: Drawing) -> None:
        drawing.figure.draw_without_rendering()
        imsave(folder / f"{name}.png", np.zeros((1, 1)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cagp_studies.runner._save_figure", save)
        yield


def on_real_data() -> dict[str, AnyStudy]:
    """Those of the tiny studies that read data files, by name."""
    studies: tuple[AnyStudy, ...] = (
        TinyUci(),
        TinyHyperparameters(),
        TinyMeans(),
        TinyTimings(),
        TinyCalibration(),
        TinyConvergence(),
        TinyFullHyperparameters(),
        TinyFull(),
        TinyAcceleration(),
        TinyRecalibration(),
        TinyHeaton(),
        TinyRelocated(),
        TinyScoreboard(),
    )
    return {study.name: study for study in studies}


def simulated() -> dict[str, AnyStudy]:
    """Those that need no data files, by name."""
    studies: tuple[AnyStudy, ...] = (
        TinySynthetic(),
        TinySmoothness(),
        TinySbc(),
        TinySbcIterations(),
        TinyTime(),
        TinyHybrid(),
        SmallerRecalibration(),
    )
    return {study.name: study for study in studies}


def all_tiny() -> dict[str, AnyStudy]:
    """A tiny one for each of the real studies, by name; without CAGP_DATA only those that need no data files."""
    return simulated() | on_real_data() if os.environ.get("CAGP_DATA") else simulated()
