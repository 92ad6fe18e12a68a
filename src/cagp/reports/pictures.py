"""Figures for the reports: as PNG, in colours that the colour-blind can tell apart."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calibration import plots
from .held_out import HeldOut
from .inputs import array
from .names import Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", "#D55E00"
"""Of Okabe and Ito's palette."""

_DPI = 130
_FEW_POINTS = 10  # fewer values than this make no histogram


def new_figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    """A figure of ``rows`` × ``columns`` panels, each so many inches, and its axes as an array of that shape."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.08)  # labels must not touch the titles of the next row
    figure = Figure(figsize=(columns * width, rows * height), layout=layout)
    return figure, figure.subplots(rows, columns, squeeze=False)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, the same bytes every time."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def pit_bins(n: int) -> int:
    """How many bins a histogram of n values of the PIT has."""
    return int(np.clip(n // 10, 4, 20))


def calibration(held_out: HeldOut, names: Names) -> bytes | None:
    """Predicted against observed, coverage, PIT and z-scores; None with too few values."""
    if len(held_out) < _FEW_POINTS:
        return None
    scores, bins = held_out.scores, pit_bins(len(held_out))
    figure, axes = new_figure(2, 2, 4.9, 3.7)
    first, second, third, fourth = axes.flat
    _predicted_against_observed(first, held_out, names)
    plots.coverage_curve(scores.pit, ax=second)
    plots.pit_histogram(scores.pit, bins=bins, ax=third)
    plots.z_histogram(held_out.z, bins=max(8, bins), ax=fourth)
    question = "do intervals hold what they promise?"
    titles = ("predictions and observations", question, "flat if right", "normal if right")
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, fontsize="medium")
    return png(figure)


def simulated(t: np.ndarray, z: np.ndarray) -> bytes:
    """Coverage, PIT and z-scores of simulations under the prior."""
    figure, ((left, middle, right),) = new_figure(1, 3, 4.2, 3.5)
    plots.coverage_curve(t, ax=left)
    plots.pit_histogram(t, ax=middle)
    middle.set_xlabel("PIT value, t = Φ(z)")
    plots.z_histogram(z, ax=right)
    return png(figure)


def _predicted_against_observed(ax: Axes, held_out: HeldOut, names: Names) -> None:
    shown = np.arange(len(held_out))
    if len(shown) > 300:  # error bars of more would hide each other
        shown = np.sort(np.random.default_rng(0).choice(shown, 300, replace=False))
    mean, ends_of = array(held_out.prediction.mean), held_out.prediction.interval(0.95)
    lower, upper = (np.where(np.isfinite(end), end, np.nan)[shown] for end in map(array, ends_of))
    low, high = min(held_out.truth.min(), mean.min()), max(held_out.truth.max(), mean.max())
    margin = 0.04 * (high - low) or 1.0
    ends = (low - margin, high + margin)
    error = np.maximum([mean[shown] - lower, upper - mean[shown]], 0.0)
    label = f"{len(shown)} points, 95% intervals"
    style: dict[str, Any] = {"color": BLUE, "fmt": "o", "markersize": 3, "elinewidth": 0.6, "alpha": 0.5}
    ax.errorbar(held_out.truth[shown], mean[shown], yerr=error, label=label, **style)
    ax.plot(ends, ends, "k--", linewidth=1, label="equal")
    ax.set(xlabel=f"observed {names.target_label}", ylabel=f"predicted {names.target_label}")
    ax.set(xlim=ends, ylim=(ends[0], ends[1] + 0.25 * (high - low)))
    ax.legend(loc="upper left", fontsize="small", framealpha=0.9)


def computation(now: Any, later: Any, what: str) -> bytes:
    """The computational share at every sampled point, before and after more work, with the guaranteed range."""
    order = np.argsort(now.estimate)
    figure, ((ax,),) = new_figure(1, 1, 8.0, 3.6)
    x = np.arange(len(order)) + 1
    drawn = ((now, ORANGE, "s", -0.12, "now"), (later, BLUE, "o", 0.12, f"after {what}"))
    for shares, colour, marker, shift, label in drawn:
        low, middle, high = (100 * part[order] for part in (shares.lower, shares.estimate, shares.upper))
        error = np.maximum([middle - low, high - middle], 0)
        ax.errorbar(x + shift, middle, yerr=error, fmt=marker, markersize=4, color=colour, elinewidth=0.9, label=label)
    ax.set(xlabel="sampled point, sorted", ylabel="computational share of the variance [%]")
    top = ax.get_ylim()[1]
    ax.set_ylim(-0.02 * top, min(top, 102.0))
    figure.legend(loc="outside upper center", fontsize="small", ncols=2, frameon=False)
    return png(figure)
