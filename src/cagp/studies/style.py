"""How the studies draw: one colour, line and marker per solver, readable in grey and for the colour-blind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..solvers import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Look:
    """The label of a solver, its colour (Okabe and Ito's palette), line and marker."""

    label: str
    color: str
    linestyle: Any
    marker: str

    def line(self) -> dict[str, Any]:
        """Keyword arguments for ``Axes.plot``."""
        return {"label": self.label, "color": self.color, "linestyle": self.linestyle, "marker": self.marker}


def hybrid_name(sweeps: int) -> str:
    """The name of the method that goes over from Gauss-Seidel to CG after so many sweeps."""
    return f"hybrid-{sweeps}"


LOOKS = {
    "gauss-seidel": Look("CAGP-GS", "#0072B2", "-", "o"),
    "gauss-seidel-natural": Look("CAGP-GS, natural order", "#0072B2", "-", "o"),
    "gauss-seidel-random": Look("CAGP-GS, random order", "#56B4E9", (0, (5, 1)), "v"),
    "conjugate-gradient": Look("CAGP-CG", "#D55E00", "--", "s"),
    hybrid_name(2): Look("GS to 2, then CG", "#56B4E9", (0, (5, 1)), "v"),
    hybrid_name(5): Look("GS to 5, then CG", "#E69F00", (0, (3, 1, 1, 1)), "P"),
    hybrid_name(10): Look("GS to 10, then CG", "#CC79A7", ":", "D"),
    hybrid_name(20): Look("GS to 20, then CG", "#882255", (0, (2, 1)), "*"),
    "calibrated-cg": Look("calibrated CG", "#E69F00", (0, (3, 1, 1, 1)), "P"),
    "random-directions": Look("CAGP-Rand", "#009E73", "-.", "^"),
    "subset": Look("subset GP", "#CC79A7", ":", "D"),
    "cholesky": Look("exact GP", "#000000", (0, (1, 1)), ""),
}
_SPARE = (("#E69F00", (0, (3, 1, 1, 1)), "P"), ("#999999", (0, (5, 3)), "X"), ("#882255", (0, (2, 1)), "*"))
LOOKS |= {
    name: Look(name, *_SPARE[i % len(_SPARE)]) for i, name in enumerate(name for name in NAMES if name not in LOOKS)
}
"""By name of a solver or, where its order matters, of a method. Solvers without a look of their own get a spare one."""


def band(ax: Axes, x: np.ndarray, mean: np.ndarray, error: np.ndarray, solver: str) -> None:
    """A curve through ``mean`` (n,) with a band of one standard ``error`` (n,) to either side."""
    look = LOOKS[solver]
    # ten markers at most, evenly spaced on a logarithmic axis, so that they tell the curves apart but do not hide them
    marked = np.unique(np.geomspace(1, len(x), min(10, len(x))).round().astype(int) - 1)
    ax.plot(x, mean, markevery=list(marked), markersize=4.5, linewidth=1.4, **look.line())
    ax.fill_between(x, mean - error, mean + error, color=look.color, alpha=0.22, linewidth=0)


def level(ax: Axes, mean: float, error: float, solver: str) -> None:
    """A horizontal line for a solver that does not iterate, with a band of one standard error."""
    look = LOOKS[solver]
    ax.axhline(mean, label=look.label, color=look.color, linestyle=look.linestyle, linewidth=1.4)
    ax.axhspan(mean - error, mean + error, color=look.color, alpha=0.15, linewidth=0)


def plain_ticks(axis: Axis, steps: Sequence[float] = (1, 2, 5)) -> None:
    """Give a logarithmic axis ticks at ``steps`` times a power of ten, written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure) -> None:
    """One legend for all panels, below them, with the solvers in their usual order."""
    found = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
    labels = [look.label for look in LOOKS.values() if look.label in found]
    figure.legend(
        [found[label] for label in labels], labels, loc="outside lower center", ncols=len(labels), frameon=False
    )
