"""``cagp solvers``: what there is."""

from __future__ import annotations

from .shared import Voice


def solvers() -> None:
    """List the solvers: what they are called, whether their error bars are calibrated, and what they cost.

    d training points, T test points, m iterations. "data" solvers work once and then predict any number of points;
    "test" solvers work for each test point anew.
    """
    from ..solvers import ALL, Chain

    rows = []
    for solver in ALL:
        calibrated = "if all are" if solver is Chain else "yes" if solver.calibrated else "no"
        rows.append((solver.name, solver.__name__, calibrated, solver.side, solver.cost))
    voice = Voice(quiet=False)
    voice.table(("--solver", "in Python", "calibrated", "side", "cost"), rows, whole=4)
    voice("Settings go in brackets: --solver 'CalibratedCG(10, Nystrom(1000), start=NearestNeighbours(100))'")
