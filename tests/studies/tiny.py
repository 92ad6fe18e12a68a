"""Studies small enough for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from cagp.solvers import ConjugateGradient, GaussSeidel, RandomDirections
from cagp.studies import AnyStudy, Comparison, Drawing, Presentation, Study
from cagp.studies.base import Tables
from cagp.studies.convergence import ConvergenceConfig
from cagp.studies.sbc import Sbc
from cagp.studies.sbc_iterations import SbcIterations
from cagp.studies.simulated import Case, SimulatedConfig
from cagp.studies.smoothness import Smoothness
from cagp.studies.synthetic import Synthetic
from cagp.studies.timing import Time, TimeConfig


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


def all_tiny() -> dict[str, AnyStudy]:
    """A tiny one for each of the real studies, by name."""
    studies: tuple[AnyStudy, ...] = (
        TinySynthetic(),
        TinySmoothness(),
        TinySbc(),
        TinySbcIterations(),
        TinyTime(),
    )
    return {study.name: study for study in studies}
