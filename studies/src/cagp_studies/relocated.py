"""One gap is one draw: a mask laid over many places of an observed field, plain models beside recalibrated ones.

What is predicted was observed, and is held out by a mask that has nothing to do with it: clouds of a satellite, turned
and shifted, or rectangles. Nothing is scored in the satellite's own gaps, and their test values are never read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

import cagp
from cagp import datasets
from cagp.calibration import evaluate

from .heaton_data import SATELLITE, SIMULATED, Given, load, satellite_content
from .problem import Problem, generator
from .study import Comparison, Drawing, Presentation, Study, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = (0.5, 0.8, 0.95)
ERA5 = "era5"
TITLES = {
    SATELLITE: "satellite data, its clouds elsewhere",
    SIMULATED: "simulated field, the clouds elsewhere",
    ERA5: "ERA5, rectangles in windows of 40°",
}
PLAIN, RECALIBRATED = "plain", "recalibrated"

_ERA5_CELLS, _WINDOW = 1440, 160  # around the globe, and along the side of a window
_BELOW_60 = (120, 600 - _WINDOW)  # the first row of a window, counted from the north pole: it ends at 60 degrees south
_COVERED = 0.3  # the share of a window that rectangles cover
_SIDES = (1 / 32, 1 / 4)  # of rectangles, in sides of a window


@dataclass(frozen=True)
class RelocatedConfig:
    """Every so many-th row and column of the grids of ``cases``, and so many ``places`` of the mask on each."""

    cases: tuple[str, ...]
    every: int
    places: int


@dataclass(frozen=True)
class RelocatedPiece:
    """One place of the mask."""

    case: str
    place: int


class Relocated(Study[RelocatedConfig, RelocatedPiece]):
    """``cagp.fit(X, y, like=gaps)`` with no other options, at many places of the gaps; with and without its margins."""

    name = "relocated"
    title = "Relocated masks: one gap is one draw"
    shows = "nothing in the paper: how much error bars in large gaps differ from place to place"
    scales: ClassVar[Mapping[str, RelocatedConfig]] = {
        "quick": RelocatedConfig((SATELLITE, SIMULATED, ERA5), every=4, places=12),
        "paper": RelocatedConfig((SATELLITE, SIMULATED, ERA5), every=2, places=16),
    }

    def pieces(self, config: RelocatedConfig) -> Mapping[str, RelocatedPiece]:
        content = satellite_content()  # another file makes other pieces, and none makes none
        return {
            f"{case}{f'-{content}' if case == SATELLITE else ''}-place-{place:03d}": RelocatedPiece(case, place)
            for case in config.cases
            if case != SATELLITE or content is not None
            for place in range(config.places)
        }

    def run(self, config: RelocatedConfig, piece: RelocatedPiece, seed: int) -> Tables:
        problem = problem_at(piece, config.every, seed)
        started = time.perf_counter()
        globe = (0, 1) if piece.case == ERA5 else None
        model = cagp.fit(problem.X, problem.y, like=problem.X_test, globe=globe, seed=seed, progress=False)
        seconds = time.perf_counter() - started
        identity = {"case": piece.case, "seed": seed, "place": piece.place, "train": len(problem.y)}
        rows = []
        for what, each in ((PLAIN, model.replace(margins=None)), (RECALIBRATED, model)):
            prediction = each.predict(problem.X_test, progress=False).observed()
            scores = evaluate(prediction, problem.truth, "observed")
            numbers = {name: getattr(scores, name) for name in ("rmse", "crps", "interval_score")}
            numbers |= {f"holds_{100 * level:g}": scores.coverage(level) for level in LEVELS}
            found = {"test": len(problem.truth), "mended": model.margins is not None, "seconds": seconds}
            rows.append({**identity, "what": what, **found, **numbers})
        return {"table": pd.DataFrame(rows)}

    def present(self, config: RelocatedConfig, tables: Tables) -> Presentation:
        table = tables["table"]
        caption = (
            "What central intervals hold: a dot is one place of the mask, the line their average, dashed what is "
            "promised. How far the dots lie apart is what nobody can know about a single place."
        )
        return Presentation(
            figures={"coverage": Drawing(_coverage_figure(table), caption)},
            comparisons=[_by_case(table, case) for case in dict.fromkeys(table["case"])],
            remarks=[
                "± is a standard error over places, the spread a standard deviation from place to place. Places on "
                "one field overlap in their data, so that standard errors are somewhat too small.",
                f"One row and column of the grids in {config.every}. What is held out was observed: the truth in the "
                "satellite's own gaps is never read. Of the models that cagp.fit chose, the recalibrated ones are as "
                "it left them, and the plain ones the same without margins.",
            ],
        )


# --- a mask at a place ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Grid:
    """A field ``values`` (m, n), NaN where nobody observed it, at places X (m, n, 2)."""

    X: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, given: Given) -> Grid:
        """The observations of a competitor on their grid, from which the places of the gaps are known too."""
        X = np.concatenate([given.X, given.gaps])
        y = np.concatenate([given.y, np.full(len(given.gaps), np.nan)])
        order = np.lexsort((X[:, 0], X[:, 1]))
        across = len(np.unique(X[:, 0]))
        return cls(X[order].reshape(-1, across, 2), y[order].reshape(-1, across))

    @cached_property
    def observed(self) -> np.ndarray:
        """Where there is a value, (m, n)."""
        return np.isfinite(self.values)

    def without(self, mask: np.ndarray) -> Problem:
        """To predict what is observed under a ``mask`` (m, n) from the other observations."""
        train, test = self.observed & ~mask, self.observed & mask
        return Problem(self.X[train], self.values[train], self.X[test], self.values[test])


def relocated(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The ``mask`` (m, n) somewhere else: turned over at random, and shifted; what leaves the grid enters it again."""
    first, second = rng.choice((-1, 1), 2)
    return np.roll(mask[::first, ::second], [rng.integers(side) for side in mask.shape], axis=(0, 1))


def rectangles(side: int) -> np.ndarray:
    """The same rectangular gaps always, of all sizes, on a square grid (side, side)."""
    rng, mask = np.random.default_rng(0), np.zeros((side, side), dtype=bool)
    smallest, largest = np.log(_SIDES)
    while mask.mean() < _COVERED:
        height, width = (max(1, round(side * part)) for part in np.exp(rng.uniform(smallest, largest, 2)))
        top, left = rng.integers(side - height + 1), rng.integers(side - width + 1)
        mask[top : top + height, left : left + width] = True
    return mask


def problem_at(piece: RelocatedPiece, every: int, seed: int) -> Problem:
    """What to predict and what from, where the mask is at that place."""
    rng = generator(seed, piece.place)
    if piece.case != ERA5:
        grid = Grid.of(load(piece.case).thinned(every).given)
        return grid.without(relocated(~grid.observed, rng))
    window = np.arange(0, _WINDOW, every)
    rows = rng.integers(*_BELOW_60) + window
    columns = (rng.integers(_ERA5_CELLS) + window) % _ERA5_CELLS
    data = datasets.era5()  # the pole is one point, then row by row
    at = 1 + (rows[:, None] - 1) * _ERA5_CELLS + columns
    return Grid(data.X[at], data.y[at]).without(relocated(rectangles(len(window)), rng))


# --- what came out ----------------------------------------------------------------------------------------------------


def _by_case(table: pd.DataFrame, case: str) -> Comparison:
    """Plain and recalibrated on one field: averages over places, their standard errors, and the spread of places."""
    of = table[table["case"] == case]
    plain, mended = (of[of["what"] == what].set_index("place") for what in (PLAIN, RECALIBRATED))
    n = len(plain)
    rows = [
        (
            f"{100 * level:g}% intervals hold",
            *(_coverage(each[f"holds_{100 * level:g}"]) for each in (plain, mended)),
            "",
        )
        for level in LEVELS
    ]
    for name, title in (("crps", "CRPS"), ("interval_score", "interval score, 95%"), ("rmse", "RMSE")):
        change = 100 * (mended[name] / plain[name] - 1)
        better = int((change < 0).sum())
        told = f"{change.mean():+.1f} ± {_error(change):.1f}%, better at {better} of {n} places" if change.any() else ""
        rows.append((title, *(f"{each[name].mean():.4g}" for each in (plain, mended)), told))
    sizes = f"{plain['train'].mean():,.0f} observations, {plain['test'].mean():,.0f} to predict"
    caption = (
        f"{TITLES[case]}: {n} places of the mask, on average {sizes}; recalibrated at {int(plain['mended'].sum())}."
    )
    return Comparison(caption[:1].upper() + caption[1:], ("", PLAIN, RECALIBRATED, "change"), rows)


def _coverage(held: pd.Series[Any]) -> str:
    low, high = 100 * held.min(), 100 * held.max()
    spread = 100 * held.std() if len(held) > 1 else 0.0
    return f"{100 * held.mean():.1f} ± {_error(100 * held):.1f}%, spread {spread:.1f} ({low:.1f} to {high:.1f})"


def _error(values: pd.Series[Any]) -> float:
    """The standard error of the average over places; 0 of a single one."""
    return float(values.std() / len(values) ** 0.5) if len(values) > 1 else 0.0


def _coverage_figure(table: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys(table["case"]))
    figure, axes = plt.subplots(
        1, len(cases), figsize=(1 + 3.6 * len(cases), 3.6), sharey=True, squeeze=False, layout="constrained"
    )
    for ax, case in zip(axes.flat, cases, strict=True):
        _dots(ax, table[table["case"] == case])
        ax.set_title(TITLES[case], fontsize="medium")
    axes[0, 0].set_ylabel("intervals that hold, %")
    axes[0, 0].legend(fontsize="small", loc="lower right")
    return figure


def _dots(ax: Axes, table: pd.DataFrame) -> None:
    """One dot per place and level, plain and recalibrated beside each other."""
    for i, level in enumerate(LEVELS):
        ax.hlines(100 * level, i - 0.4, i + 0.4, color="black", linestyle="--", linewidth=1)
        for what, aside, colour in ((PLAIN, -0.18, "#D55E00"), (RECALIBRATED, 0.18, "#0072B2")):
            held = 100 * table.loc[table["what"] == what, f"holds_{100 * level:g}"]
            at = i + aside + np.linspace(-0.1, 0.1, len(held))
            ax.plot(at, held, "o", color=colour, markersize=3.5, alpha=0.7, label=what if i == 0 else None)
            ax.hlines(held.mean(), i + aside - 0.14, i + aside + 0.14, color=colour, linewidth=2)
    ax.set_xticks(range(len(LEVELS)), [f"{100 * level:g}%" for level in LEVELS])
    ax.set_xlabel("promised")
