"""Plots that show what is noise: each draws on ``ax``, or on a new figure, and returns the axes.

Figures are made without pyplot: no window opens. Save one with ``ax.figure.savefig("pit.png")``. Bands hold for
independent values; those of many test points of one data set are correlated, and the true band is wider: it is that of
so many ``independent`` ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy  # its parts by their full names: stats takes long to import, and is when it is used
from scipy.special import ndtr

from ..errors import InputError
from ..support.advice import optional
from ..support.validation import ArrayLike, count, fraction, positive, vector
from .bands import Band, ecdf_band, histogram_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's blue, and a grey that stays behind it
_BLUE, _BAND = "#0072B2", "#BBBBBB"

Corner = Literal["upper center", "upper left", "lower right"]


def new_axes(panels: int = 1) -> Sequence[Axes]:
    """``panels`` axes side by side on a new figure."""
    figure_module = optional("matplotlib.figure", "plotting", "calibration")
    figure = figure_module.Figure(figsize=(4.2 * panels, 3.2), layout="constrained")
    return figure.subplots(1, panels, squeeze=False)[0]


def pit_histogram(
    pit: ArrayLike, *, bins: int = 20, level: float = 0.95, independent: float | None = None, ax: Axes | None = None
) -> Axes:
    """Histogram of PIT values or SBC's t (n,): a hump is conservative, a U overconfident, a slope a shift."""
    values, ax = _probabilities(pit), ax or new_axes()[0]
    edges = np.linspace(0, 1, count(bins, "bins", minimum=2) + 1)
    _histogram(ax, values, edges, edges, histogram_band(_worth(values, independent), bins, level))
    ax.axhline(len(values) / bins, color="black", linestyle="--", linewidth=1, label="uniform")
    return _finish(ax, "PIT value", "count", xlim=(0, 1))


def z_histogram(
    z: ArrayLike, *, bins: int = 24, level: float = 0.95, independent: float | None = None, ax: Axes | None = None
) -> Axes:
    """Histogram of z-values (n,) against N(0, 1), with its band; the two outer bins hold all beyond −3 and 3."""
    values, ax = vector(z, "z"), ax or new_axes()[0]
    inner = np.linspace(-3, 3, count(bins, "bins", minimum=4) - 1)
    width = inner[1] - inner[0]
    bounds, drawn = np.r_[-np.inf, inner, np.inf], np.r_[inner[0] - width, inner, inner[-1] + width]
    _histogram(ax, values, bounds, drawn, histogram_band(_worth(values, independent), np.diff(ndtr(bounds)), level))
    x = np.linspace(drawn[0], drawn[-1], 300)
    density = len(values) * width * np.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5
    ax.plot(x, density, color="black", linestyle="--", linewidth=1, label="N(0, 1)")
    return _finish(ax, "z-score (outer bins: all beyond ±3)", "count", xlim=(drawn[0], drawn[-1]))


def ecdf_difference(
    pit: ArrayLike,
    *,
    points: int | None = None,
    level: float = 0.95,
    independent: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """ECDF of PIT values or SBC's t (n,) minus the uniform one, with its simultaneous band, at ``points`` steps."""
    values, ax = _probabilities(pit), ax or new_axes()[0]
    x, lower, upper, style = _ecdf_limits(_worth(values, independent), points, level)
    lower, upper, found = lower - x, upper - x, _ecdf(values, x) - x
    ax.fill_between(x, lower, upper, **style)
    ax.axhline(0, color="black", linestyle="--", linewidth=1, label="uniform")
    ax.plot(x, found, color=_BLUE, linewidth=1.5, label=f"{len(values)} values")
    _headroom(ax, max(upper.max(), found.max()), min(lower.min(), found.min()))
    return _finish(ax, "PIT value", "ECDF − uniform", xlim=(0, 1))


def coverage_curve(
    pit: ArrayLike,
    *,
    points: int | None = None,
    level: float = 0.95,
    independent: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Coverage of the central intervals against their nominal level, from PIT values (n,): too low is overconfident."""
    values, ax = _probabilities(pit), ax or new_axes()[0]
    x, lower, upper, style = _ecdf_limits(_worth(values, independent), points, level)
    ax.fill_between(x, lower, upper, **style)
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    # the central interval at level p holds the truth where |2 pit − 1| ≤ p
    found = _ecdf(np.abs(2 * values - 1), x)
    ax.plot(x, found, color=_BLUE, linewidth=1.5, label=f"{len(values)} values")
    corner: Corner = "lower right" if found.sum() > x.sum() else "upper left"  # the one that the curve leaves free
    return _finish(ax, "nominal level of the interval", "coverage", legend=corner, xlim=(0, 1), ylim=(0, 1))


def reliability(
    promised: ArrayLike, happened: ArrayLike, *, bins: int = 10, level: float = 0.95, ax: Axes | None = None
) -> Axes:
    """How often what was promised with a probability (n,) ``happened`` (n,), true or false: in so many ``bins`` of it.

    The band is that of n independent events, whose shares lie inside in all bins together with probability ``level``.
    """
    p, ax = _probabilities(promised, "promised", "prediction.exceedance(threshold) is one"), ax or new_axes()[0]
    true = vector(np.asarray(happened, dtype=np.float64), "happened", size=len(p))
    if not np.isin(true, (0, 1)).all():
        raise InputError(f"happened must be true or false, 1 or 0, got {true[~np.isin(true, (0, 1))][0]:g}")
    place = np.minimum((p * count(bins, "bins", minimum=2)).astype(int), bins - 1)
    used, place, n = np.unique(place, return_inverse=True, return_counts=True)
    x, found = (np.bincount(place, each) / n for each in (p, true))
    # binomial with the mean probability of the bin: at least as wide as the sum of events of different ones
    outside = (1 - fraction(level, "level")) / (2 * len(used))
    lower, upper = (limit(outside, n, x) / n for limit in (scipy.stats.binom.ppf, scipy.stats.binom.isf))
    ax.vlines(x, lower, upper, **{**_band_style(level), "linewidth": 7})
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    ax.plot(x, found, color=_BLUE, linewidth=1.5, marker="o", markersize=4, label=f"{len(p):,} events")
    return _finish(ax, "promised probability", "share that happened", legend="lower right", xlim=(0, 1), ylim=(0, 1))


def _probabilities(
    values: ArrayLike, name: str = "pit", remedy: str = "the PIT of a normal prediction is Φ((truth − mean) / std)"
) -> np.ndarray:
    """PIT values or other probabilities as a float64 array (n,) within [0, 1]."""
    array = vector(values, name)
    outside = (array < 0) | (array > 1)
    if outside.any():
        first = int(outside.argmax())
        raise InputError(f"{name} must lie in [0, 1], got {array[first]:g} at index {first}; {remedy}")
    return array


def _worth(values: np.ndarray, independent: float | None) -> int:
    """How many independent values the band is for: all of them, or as many as they count like."""
    return len(values) if independent is None else min(len(values), max(1, round(positive(independent, "independent"))))


def _histogram(ax: Axes, values: np.ndarray, bounds: np.ndarray, drawn: np.ndarray, band: Band) -> None:
    """Counts between ``bounds`` as bars between the ``drawn`` edges, with the band behind them."""
    counts, _ = np.histogram(values, bounds)
    lower, upper = (each * len(values) / band.expected.sum() for each in (band.lower, band.upper))
    ax.stairs(upper, drawn, baseline=lower, fill=True, **_band_style(band.level))
    ax.stairs(counts, drawn, fill=True, color=_BLUE, alpha=0.25)
    ax.stairs(counts, drawn, color=_BLUE, linewidth=1.5, label=f"{len(values)} values")
    _headroom(ax, max(counts.max(), upper.max()))


def _band_style(level: float) -> dict[str, Any]:
    return {"color": _BAND, "alpha": 0.6, "linewidth": 0, "label": f"{100 * level:g}% band, simultaneous"}


def _ecdf_limits(n: int, points: int | None, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """The points, the lower and the upper limits of a band, from 0 to 1, and its style."""
    band = ecdf_band(n, points, level)
    x, lower, upper = (np.r_[0, each, 1] for each in (band.points, band.lower, band.upper))
    return x, lower, upper, _band_style(level)


def _ecdf(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(values), x, side="right") / len(values)


def _headroom(ax: Axes, top: float, bottom: float = 0.0) -> None:
    """Limits that leave the upper part of the axes to the legend."""
    height = top - bottom
    ax.set_ylim(bottom - 0.05 * height if bottom else 0.0, top + 0.45 * height)


def _finish(ax: Axes, xlabel: str, ylabel: str, legend: Corner = "upper center", **limits: tuple[float, float]) -> Axes:
    ax.set(xlabel=xlabel, ylabel=ylabel, **limits)
    ax.legend(loc=legend, fontsize="small", framealpha=0.9)
    return ax
