"""The contract of a study.

A study is a frozen configuration per scale, pieces of work that do not depend on each other, tidy tables, and a
presentation of the tables: figures, comparisons with the paper, and remarks. Everything else (running pieces in
parallel, keeping them, writing files, the report) is done once, for all studies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cagp.errors import InputError

from .machine import Forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SCALES = ("quick", "paper")

Config = TypeVar("Config")
"""A frozen dataclass of numbers, texts and tuples of them: all that decides what a study computes, but the seed."""

Piece = TypeVar("Piece")
"""A frozen dataclass that says which part of the work a piece is."""

Tables = Mapping[str, "DataFrame"]
"""Tidy tables by name. "table" has one row per run, solver and iteration; others hold what does not fit there."""


@dataclass(frozen=True)
class Drawing:
    """A figure with the sentence below it."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class Comparison:
    """A small table of text for the report and the terminal: usually the paper's numbers beside ours."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Presentation:
    """What a study has to show: figures by file name, comparisons, and remarks on what differs from the paper."""

    figures: Mapping[str, Drawing]
    comparisons: Sequence[Comparison]
    remarks: Sequence[str] = field(default_factory=tuple)


class Study(ABC, Generic[Config, Piece]):
    """One experiment.

    ``name`` is what the command line calls it, ``shows`` the part of the paper it repeats. ``scales`` has a
    configuration for "quick" and for "paper". ``revision`` goes up whenever the same configuration would give other
    numbers than before, so that pieces kept from earlier are not used again. ``alone``: pieces run one at a time,
    because they measure time.

    ``builds_on`` is a study that must be finished first, at the same scale and with the same seed: ``complete`` then
    fills in the configuration from its tables. ``work`` names the pieces where it is not ``name``: studies that show
    different sides of the same computation have the same ``work``, revision and configuration, and share the pieces.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    shows: ClassVar[str]
    revision: ClassVar[int] = 1
    alone: ClassVar[bool] = False
    scales: ClassVar[Mapping[str, Any]]
    builds_on: ClassVar[AnyStudy | None] = None
    work: ClassVar[str | None] = None

    @abstractmethod
    def pieces(self, config: Config) -> Mapping[str, Piece]:
        """The pieces of work by name; a name is also a file name."""

    @abstractmethod
    def run(self, config: Config, piece: Piece, seed: int) -> Tables:
        """Compute one piece. The same arguments give the same numbers (but for measured times) on any machine."""

    @abstractmethod
    def present(self, config: Config, tables: Tables) -> Presentation:
        """Figures, comparisons and remarks from the tables of all pieces together."""

    def complete(self, config: Config, tables: Tables) -> Config:
        """The configuration with what it takes from the tables of the study that this one builds on."""
        return config

    def with_solvers(self, config: Config, solvers: tuple[str, ...]) -> Config:
        """The configuration with more ``solvers``, by name; most studies have none to choose."""
        raise InputError(f"the study {self.name} has the paper's solvers and takes no others; leave --solvers out")

    def side_by_side(self, asked: int) -> int:
        """How many pieces may run at a time where ``asked`` are wanted."""
        return 1 if self.alone else asked

    def forecast(self, config: Config, pieces: Sequence[Piece]) -> Forecast | None:
        """What these pieces will take, one after the other; None for a study that is over soon at any scale."""
        return None


AnyStudy = Study[Any, Any]
