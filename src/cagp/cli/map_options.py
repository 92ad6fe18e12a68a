"""``cagp predict --grid``: from a model folder to a map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .flags import Listed
from .shared import Printer, labels, require_new, tell_unjudged, with_iterations
from .table_columns import names_in

if TYPE_CHECKING:
    from ..maps.area import Area
    from ..model import Model
    from ..saving import About, Saved


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
    map_page: Path | None

    def write(
        self,
        solver: str | None,
        iterations: int | None,
        stop_share: float | None,
        overwrite: bool,
        unknown: Mapping[str, Any],
        printer: Printer,
    ) -> None:
        """Write the map, and the page that was asked for; refuses the options of tables, which are ``unknown`` here."""
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
        require_page(self.map_page, None, saved, overwrite)
        own = saved.picked or saved.solver if solver is None else as_solver(solver)
        chosen = with_iterations(own.for_test_points(TILE**2), iterations)
        rule = None if stop_share is None else ComputationalShare(stop_share)
        asked: Any = {"mask": self.mask, "observed": self.observed, "level": self.level, "share": self.share}
        asked |= {"exceed": names_in(self.exceed), "stop": rule, "about": saved.about, "overwrite": True}
        made = MapOfModel.of(saved.condition(chosen), self.out, self.grid, **asked)
        require_new(self.out, overwrite or made.pieces.started)
        cells = made.cells
        printer(f"{cells.rows:,} × {cells.columns:,} cells of {cells.dx:g} × {-cells.dy:g} with {chosen!r}.")
        tell_unjudged([made.model])
        if made.finished:
            printer(f"Continuing: {len(made.finished)} of {len(made.tiles)} tiles were finished before.")
        if not self.observed:
            printer("Means and intervals are about the function; --observed is for new observations, with their noise.")
        made.write(printer.progress)
        printer(f"Written: {self.out}")
        if self.map_page is not None:
            shows: dict[str, Any] = {"mask": made.area, "level": self.level, "observed": self.observed}
            write_page(made.model, self.map_page, saved.about, printer, thresholds=made.thresholds, **shows)


def require_page(page: Path | None, mask: Path | None, saved: Saved, overwrite: bool) -> Area | None:
    """Refuse a --map that cannot be made, before any work is done; what its ``mask`` holds."""
    if page is None:
        return None
    from ..maps.area import Area
    from ..reports.map_page import require_map

    place = require_map(page, saved.prior.kernel, saved.places.shape[1])
    require_new(page, overwrite)
    return None if mask is None else Area.of(mask, saved.about.crs, place.geographic)


def write_page(
    model: Model, page: Path, about: About, printer: Printer, *, thresholds: Mapping[str, float], **shows: Any
) -> None:
    """Write the page that --map asks for, whose threshold starts at the lowest one."""
    lowest = min(thresholds.values(), default=None)
    model.map(page, threshold=lowest, names=labels(about), progress=printer.progress, **shows)
    printer(f"Written: {page}")
