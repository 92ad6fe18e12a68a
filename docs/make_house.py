"""Draw the plan of the house, ``docs/figures/house.png``, for CONTRIBUTING.md: rooms from the ground up.

python docs/make_house.py
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

FLOORS = [
    ("what a user calls", ["cli", "estimator", "interop", "reports"]),
    ("files", ["saving", "tables", "datasets"]),
    ("a fit that needs no expert", ["choosing", "hyperparameters"]),
    ("what a user holds", ["model", "story"]),
    ("error bars on the data", ["recalibration", "left_out", "calibration"]),
    ("what a model says", ["prediction", "posterior", "averages", "fields"]),
    ("one component at work", ["predicting", "workers"]),
    ("kernel, mean, noise and scale", ["prior", "transforms"]),
    ("methods", ["solvers", "preconditioners", "algebra"]),
    ("the door between kernels and solvers", ["gram"]),
    ("functions and rules", ["kernels", "means", "stopping"]),
    ("the ground", ["support", "errors"]),
]
"""From the roof down, as in ``tests/test_architecture.py``, which is what counts; each floor stands on those below."""

WIDTH, HEIGHT, GAP = 10.0, 0.62, 0.14


def main() -> None:
    figure = Figure(figsize=(11, 7.4))
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    for level, (title, rooms) in enumerate(FLOORS):
        bottom = (len(FLOORS) - level) * (HEIGHT + GAP)
        axes.text(3.1, bottom + HEIGHT / 2, title, ha="right", va="center", fontsize=11, color="#444444")
        width = (WIDTH - GAP * (len(rooms) - 1)) / len(rooms)
        for i, room in enumerate(rooms):
            left = 3.4 + i * (width + GAP)
            box = FancyBboxPatch(
                (left, bottom), width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08", fc="#DCEAF4", ec="#0072B2"
            )
            axes.add_patch(box)
            axes.text(
                left + width / 2, bottom + HEIGHT / 2, room, ha="center", va="center", fontsize=11, family="monospace"
            )
    axes.set_xlim(-0.6, 3.5 + WIDTH)
    axes.set_ylim(HEIGHT, (len(FLOORS) + 1) * (HEIGHT + GAP))
    axes.axis("off")
    figure.savefig(Path(__file__).parent / "figures" / "house.png", dpi=110)


if __name__ == "__main__":
    main()
