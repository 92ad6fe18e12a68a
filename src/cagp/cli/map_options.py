"""``cagp predict --grid``: from a model folder to a map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from .flags import Listed
from .shared import Printer, with_iterations
from .table_columns import names_in


@dataclass(frozen=True)
class MapAsked:
    """The options that say which map is wanted, as they were written."""

    folder: Path
    grid: str | None
    out: Path | None
    mask: Path | None
    level: float
    exceed: Listed
    observed: bool
    share: bool

    def write(
        self,
        solver: str | None,
        iterations: int | None,
        stop_share: float | None,
        overwrite: bool,
        unknown: Mapping[str, Any],
        printer: Printer,
    ) -> None:
        """Write the map; refuses the options of tables, which are ``unknown`` here."""
        from ..maps import TILE, MapOfModel
        from ..saving import read
        from ..stopping import ComputationalShare
        from .expressions import as_solver

        if self.grid is None:
            raise InputError("cagp predict needs a table, DATA, or --grid for a map")
        if given := [name for name, value in unknown.items() if value]:
            raise InputError(f"{given[0]} is for tables, and --grid makes a map; leave one of the two out")
        if self.out is None:
            raise InputError("--grid needs --out: map.tif, map.nc or map.zarr")
        saved = read(self.folder)
        own = saved.picked or saved.solver if solver is None else as_solver(solver)
        chosen = with_iterations(own.for_test_points(TILE**2), iterations)
        rule = None if stop_share is None else ComputationalShare(stop_share)
        asked: Any = {"mask": self.mask, "observed": self.observed, "level": self.level, "share": self.share}
        asked |= {"exceed": names_in(self.exceed), "stop": rule, "about": saved.about, "overwrite": overwrite}
        made = MapOfModel.of(saved.condition(chosen), self.out, self.grid, **asked)
        if made.area is not None and made.area.told:
            printer(made.area.told)
        cells = made.cells
        printer(f"{cells.rows:,} × {cells.columns:,} cells of {cells.dx:g} × {-cells.dy:g} with {chosen!r}.")
        if made.finished:
            printer(f"Continuing: {len(made.finished)} of {len(made.tiles)} tiles were finished before.")
        if not self.observed:
            printer("Intervals are about the function; --observed makes them about new observations, noise included.")
        made.write(printer.progress)
        printer(f"Written: {self.out}")
