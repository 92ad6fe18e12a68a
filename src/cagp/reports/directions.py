"""Kernels with turned axes: how far the correlation reaches in which direction, drawn and as a table."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..kernels import Kernel, Rotated
from ..support.numbers import number, with_unit
from .names import Names
from .page import BLUE, ORANGE, PageTable, new_figure, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEVELS = (0.5, 0.05)
_DIRECTIONS, _STEPS = 721, 60
_FURTHEST = 1e3  # of the longest lengthscale: a correlation that reaches further is not drawn


def turned_part(kernel: Kernel, names: Names) -> tuple[Rotated, tuple[int, ...]] | None:
    """The first part of the kernel with turned axes, and the columns that it sees; None where there is none."""
    found = [part for part in kernel.walk(range(len(names.features or ()))) if isinstance(part.kernel, Rotated)]
    return (found[0].kernel, found[0].columns) if found else None


def _reach(kernel: Kernel, directions: np.ndarray, level: float, longest: float) -> np.ndarray:
    """How far along each of the ``directions`` (m, p) the correlation is above ``level``, shape (m,)."""
    at = torch.from_numpy(directions)
    origin = torch.zeros(at.shape[1], dtype=torch.float64)
    centre = kernel.embed(origin[None], origin)
    variance = float(kernel.diagonal(centre)[0])
    low, high = np.full(len(directions), -12.0), np.full(len(directions), np.log(_FURTHEST))
    for _ in range(_STEPS):  # the correlation falls with distance
        middle = (low + high) / 2
        points = at * torch.from_numpy(longest * np.exp(middle))[:, None]
        above = kernel.evaluate(centre, kernel.embed(points, origin))[0].numpy() > level * variance
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(longest * np.exp(high))


def directions_table(rotated: Rotated, columns: tuple[int, ...], names: Names) -> PageTable:
    """The axes of a kernel that sees these columns, the longest first."""
    rows = []
    axes = max(rotated.axes, key=lambda each: each[0].lengthscale / each[-1].lengthscale)
    for i, axis in enumerate(axes):
        reach = [float(_reach(rotated, np.array([axis.direction]), level, axes[0].lengthscale)[0]) for level in _LEVELS]
        angle = f"{number(axis.azimuth, 3)}°" + (f", {number(axis.dip, 3)}°" if len(columns) == 3 else "")
        called = "major" if i == 0 else "minor" if i == len(axes) - 1 else "middle"
        north = f"{number((90.0 - axis.azimuth) % 180.0, 3)}°"
        rows.append((called, angle, north, *(with_unit(number(each), names.common_unit(columns)) for each in reach)))
    first, second = (names.name(c) for c in columns[:2])
    dip = f", then towards {names.name(columns[2])}" if len(columns) == 3 else ""
    caption = f"The axes of the correlation. Angles are counter-clockwise from {first} towards {second}{dip}; the "
    caption += f"azimuth is clockwise from {second}, as from north on a map."
    heads = ("axis", "angle", "azimuth", *(f"correlation {level:g} at" for level in _LEVELS))
    return PageTable(caption, heads, rows, "directions")


def directions_picture(rotated: Rotated, columns: tuple[int, ...], names: Names) -> tuple[str, bytes, str]:
    """Where the correlation with a point in the middle is 0.5 and 0.05: one panel for each pair of columns."""
    pairs = list(combinations(range(len(columns)), 2))
    figure, axes = new_figure(1, len(pairs), 5.2 if len(pairs) == 1 else 4.0, 4.8 if len(pairs) == 1 else 4.2)
    for ax, (a, b) in zip(axes[0], pairs, strict=True):
        _ellipses(ax, rotated, len(columns), a, b)
        ax.set(xlabel=f"distance along {names.label(columns[a])}", ylabel=f"distance along {names.label(columns[b])}")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    lines = "The dashed lines are the axes, with their angles against the horizontal."
    what = lines if len(pairs) == 1 else "Sections through the middle along each pair of columns."
    return "directions", png(figure), f"Where the correlation with the value in the middle is 0.5 and 0.05. {what}"


def _ellipses(ax: Axes, rotated: Rotated, columns: int, a: int, b: int) -> None:
    """The section of the columns ``a`` and ``b``, on equal scales."""
    turn = np.linspace(0.0, 2 * np.pi, _DIRECTIONS)
    directions = np.zeros((len(turn), columns))
    directions[:, a], directions[:, b] = np.cos(turn), np.sin(turn)
    longest = max(axis.lengthscale for axes in rotated.axes for axis in axes)
    for level, colour in zip(_LEVELS, (ORANGE, BLUE), strict=True):
        radius = _reach(rotated, directions, level, longest)
        ax.plot(radius * directions[:, a], radius * directions[:, b], color=colour, label=f"correlation {level:g}")
    if columns == 2:
        major = rotated.axes[0][0].direction
        for axis in rotated.axes[0]:
            reach = float(_reach(rotated, np.array([axis.direction]), _LEVELS[-1], longest)[0])
            x, y = (reach * each for each in axis.direction)
            ax.plot([-x, x], [-y, y], color="black", linewidth=0.9, linestyle="--")
            label = f"{number(axis.azimuth, 3)}°" if axis.direction == major else ""
            side = 1.0 if x > 0 or (x == 0 and y > 0) else -1.0
            ax.annotate(label, (side * x, side * y), xytext=(4, 4), textcoords="offset points", fontsize="small")
    ax.axhline(0.0, color="0.8", linewidth=0.7, zorder=0)
    ax.axvline(0.0, color="0.8", linewidth=0.7, zorder=0)
    end = 1.2 * float(radius.max())
    ax.set(xlim=(-end, end), ylim=(-end, end), aspect="equal")
