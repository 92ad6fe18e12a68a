"""A map of what a model predicts, from cells to a file: tile by tile, kept as they are finished, and put together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..errors import InputError
from ..interop.xarray_conventions import Source, exceedances, provenance, variable_attributes
from ..kernels import geographic_columns
from ..kernels.geographic import smallest_arc
from ..model import Model, require_model
from ..predicting.beyond import Beyond
from ..prediction import Prediction
from ..saving import About, Saved, fingerprint_of
from ..stopping import Rule, require_rule
from ..support.convert import array
from ..support.coordinate_systems import DEGREES, coordinate_names, east_and_north, is_globe
from ..support.pieces import Pieces
from ..support.progress import LOGGER
from ..support.progress import progress as progress_bar
from ..support.validation import fraction
from ..support.version import __version__
from .area import Area
from .cells import Bounds, Cells, Tile, opened, require_cells_of, side_of
from .extent import Extent
from .files import Layout, writer_for


@dataclass(frozen=True)
class Columns:
    """The ``names`` of a model's columns, and which of them are the coordinates of cells; rasters have the others.

    ``sphere`` says that the kernel has them on the globe, where longitudes go round.
    """

    names: tuple[str, ...]
    east: int
    north: int
    sphere: bool = False

    @classmethod
    def of(cls, model: Model, about: About) -> Columns:
        """By the kernel on the globe, by their names, or, where there are two, in their order."""
        p = model.X.shape[1]
        names = about.features or tuple(model.column_names or (f"x{i}" for i in range(p)))
        if found := [each for each in geographic_columns(model.prior.kernel, range(p)) if len(each) == 2]:
            return cls(names, found[0][1], found[0][0], sphere=True)
        own = model.column_names or ()
        called = about.crs is not None and set(coordinate_names(about.crs)) <= {*own}
        if known := east_and_north(own if called else names, about.crs if called else None):
            return cls(names, *known)
        if p != 2 or (about.crs is not None and is_globe(about.crs)):
            raise InputError(
                f"the model has the columns {', '.join(map(repr, names))}, and a map needs to know which are the "
                "coordinates; call them x and y or latitude and longitude in about.features, or fit to a GeoDataFrame"
            )
        return cls(names, 0, 1)

    def bounds(self, X: np.ndarray) -> Bounds:
        """West, south, east and north of points X (n, p)."""
        x, y = X[:, self.east], X[:, self.north]
        west, east = smallest_arc(x) if self.sphere else (x.min(), x.max())
        return float(west), float(y.min()), float(east), float(y.max())

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are no coordinates."""
        return tuple(name for i, name in enumerate(self.names) if i not in (self.east, self.north))

    def band_of(self, name: str, source: Any) -> int:
        """Which band of a raster, from 1, one of the ``others`` is: the only one there is needs no description."""
        return 1 if self.takes_only_band(source) else 1 + source.descriptions.index(name)

    def takes_only_band(self, source: Any) -> bool:
        """Whether the only band of a raster, which has no description, is the only one of the ``others``."""
        return len(self.others) == source.count == 1 and not source.descriptions[0]


@dataclass(frozen=True)
class MapOfModel:
    """A map that is to be made: everything is checked, and nothing computed. See ``write_map``."""

    model: Model
    out: Path
    cells: Cells
    columns: Columns
    about: About
    area: Area | None
    observed: bool
    level: float
    thresholds: Mapping[str, float]
    share: bool
    stop: Rule | None

    @classmethod
    def of(
        cls,
        model: Model,
        out: str | Path,
        grid: Any,
        *,
        mask: Any = None,
        observed: bool = False,
        level: float = 0.95,
        exceed: Any = (),
        share: bool = False,
        stop: Rule | None = None,
        about: About | None = None,
        overwrite: bool = False,
    ) -> MapOfModel:
        """From the arguments of ``write_map``."""
        require_model(model)
        place, found = Path(out), Saved.of(model, about).about
        writer_for(place)
        require_rule(stop)
        if share and model.transform is not None:
            raise InputError("the computational share is not known after a transform; leave share out")
        if observed and np.ndim(model.prior.noise_variance):
            raise InputError("observed: this model has one noise variance per training row, none for new ones")
        columns = Columns.of(model, found)
        cells, area = _placed(model, columns, found.crs, grid, mask)
        if columns.others:
            _require_bands(cells, columns)
        asked: Any = (bool(observed), fraction(level, "level"), exceedances(exceed, "exceed"), bool(share), stop)
        made = cls(model, place, cells, columns, found, area, *asked)
        if place.exists() and not (overwrite or made.pieces.started):
            raise InputError(f"{place} is there already; overwrite=True replaces it")
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The bands."""
        return ("mean", "std", "lower", "upper", *self.thresholds, *(("share",) if self.share else ()))

    @cached_property
    def pieces(self) -> Pieces:
        """The finished tiles beside the output, known by all that decides their numbers."""
        try:
            model = fingerprint_of(Saved.of(self.model))
        except InputError:  # it cannot be saved, so that nothing says whether another one is the same
            model = uuid4().hex
        raster = self.cells.raster
        seen = "" if raster is None else (raster.stat().st_size, raster.stat().st_mtime_ns)
        area = "" if self.area is None else hashlib.sha256(self.area.content).hexdigest()
        decisive = [
            __version__,
            model,
            area,
            self.observed,
            self.level,
            self.names,
            *map(repr, (self.cells, self.columns, self.stop)),
        ]
        return Pieces(self.out, hashlib.sha256(json.dumps([*decisive, seen]).encode()).hexdigest())

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """All tiles that have a cell which is wanted."""
        wanted = tuple(tile for tile in self.cells.tiles() if self.inside(tile).any())
        if not wanted and self.area is None:
            raise InputError(f"no cell of {self.cells.raster} has data; choose another raster")
        if not wanted:
            raise InputError("no cell has its centre in the mask; choose smaller cells or another mask")
        return wanted

    @cached_property
    def finished(self) -> frozenset[int]:
        """The numbers of the tiles that were finished before."""
        return frozenset(each.number for each in self.tiles if self._kept(each) is not None)

    def inside(self, tile: Tile) -> np.ndarray:
        """Which cells of a tile are wanted, (rows, columns)."""
        wanted = np.ones(tile.shape, dtype=bool) if self.area is None else self.area.inside(self.cells, tile)
        if self.cells.raster is not None:
            with opened(self.cells.raster) as source:
                for band in [self.columns.band_of(each, source) for each in self.columns.others] or [1]:
                    wanted &= np.isfinite(_values(source, band, tile))
        return wanted

    @property
    def missed(self) -> str:
        """What is to be said where no cell that is wanted lies within the data; nothing where one does."""
        columns, cells = self.columns, self.cells
        names = columns.names[columns.east], columns.names[columns.north]
        extent = Extent(columns.bounds(array(self.model.recipe.X)), names, columns.sphere)
        for tile in self.tiles:
            x, y = cells.xs(tile.left, tile.right), cells.ys(tile.top, tile.bottom)[:, None]
            near = extent.holds(x, y, cells.dx, -cells.dy)
            if near.any() and (near & self.inside(tile)).any():
                return ""
        return extent.missed

    def points(self, tile: Tile, wanted: np.ndarray) -> np.ndarray:
        """The wanted cells of a tile as points (n, p)."""
        rows, columns = np.nonzero(wanted)
        found = np.empty((len(rows), len(self.columns.names)))
        found[:, self.columns.east] = self.cells.xs(tile.left, tile.right)[columns]
        found[:, self.columns.north] = self.cells.ys(tile.top, tile.bottom)[rows]
        if self.columns.others:
            assert self.cells.raster is not None
            with opened(self.cells.raster) as source:
                for name in self.columns.others:
                    values = _values(source, self.columns.band_of(name, source), tile)
                    found[:, self.columns.names.index(name)] = values[wanted]
        return found

    def write(self, progress: bool | None = None) -> str:
        """Make the map; what was said of the last tile. Ctrl-C keeps the tiles that are finished."""
        if self.missed:
            LOGGER.warning(f"{self.out}: {self.missed}.")
        total, beyond = sum(float(np.prod(tile.shape)) for tile in self.tiles), Beyond(self.model)
        with progress_bar("map", total, progress) as advance:
            for tile in self.tiles:
                if tile.number not in self.finished:
                    wanted = self.inside(tile)
                    points = self.points(tile, wanted)
                    beyond.look(points)
                    prediction = self.model.predict(points, stop=self.stop, progress=False)
                    if prediction.status.reason == "interrupted":
                        raise KeyboardInterrupt
                    told = {"wanted": wanted, "status": np.array(str(prediction.status))}
                    self.pieces.save(tile.number, tile.number + 1, **told, **self._bands(prediction))
                advance(float(np.prod(tile.shape)))
        if beyond.told:
            LOGGER.warning(f"{self.out}: {beyond.told}")
        last = self._kept(self.tiles[-1])
        message = "" if last is None else str(last["status"])
        writer_for(self.out)(self.out, self._layout(message), self._parts())
        self.pieces.remove()
        return message

    def _kept(self, tile: Tile) -> dict[str, np.ndarray] | None:
        return self.pieces.load(tile.number, tile.number + 1)

    def _parts(self) -> Iterator[tuple[Tile, dict[str, np.ndarray]]]:
        """Every finished tile, NaN where a cell is not wanted."""
        for tile in self.tiles:
            kept = self._kept(tile)
            if kept is None:
                raise OSError(f"{self.pieces.folder} has lost a tile, perhaps to another process; start again")
            wanted, values = kept["wanted"], {}
            for name in self.names:
                values[name] = np.full(tile.shape, np.nan)
                values[name][wanted] = kept[name]
            yield tile, values

    def _bands(self, prediction: Prediction) -> dict[str, np.ndarray]:
        """What each band has at the points of a prediction, each (n,)."""
        seen = prediction.observed() if self.observed else prediction
        lower, upper = seen.interval(self.level)
        found = {"mean": seen.mean, "std": seen.std, "lower": lower, "upper": upper}
        found |= {name: seen.exceedance(threshold) for name, threshold in self.thresholds.items()}
        if self.share:
            found["share"] = np.minimum(prediction.computational_variance.upper / prediction.variance, 1.0)
        return {name: np.asarray(values, dtype=np.float64) for name, values in found.items()}

    def _layout(self, message: str) -> Layout:
        """What the file says of itself and of its bands."""
        source = Source.of(self.about, self.about.target or "the target")
        bands = {}
        for name in self.names:
            if name == "share":
                said = "share of the variance that more computation could remove, at most"
                bands[name] = {"long_name": said, "units": "1"}
                continue
            bands[name] = variable_attributes(source, name, self.level, self.observed)
        notes = provenance(source, self.model, self.observed, message)
        notes["cagp_interval"] = f"lower and upper hold {100 * self.level:g}%"
        return Layout(self.cells, bands, notes)


def _values(source: Any, band: int, tile: Tile) -> np.ndarray:
    """A band of a raster in its unit, by its scale and offset, NaN where there is no data, (rows, columns)."""
    window = tuple((each.start, each.stop) for each in tile.slices)
    values = source.read(band, window=window) * float(source.scales[band - 1]) + float(source.offsets[band - 1])
    return np.where(source.read_masks(band, window=window) > 0, values, np.nan)


def _placed(model: Model, columns: Columns, known: str | None, grid: Any, mask: Any) -> tuple[Cells, Area | None]:
    """The cells that ``grid`` means, over the mask or the data of the model, and the mask; the system is ``known``."""
    globe = columns.sphere or "latitude" in columns.names if known is None else is_globe(known)
    crs = known or (DEGREES if globe else None)
    side = side_of(grid, crs)
    if side is None:
        cells = Cells.of_raster(Path(grid))
        require_cells_of(cells, known, globe)
        return cells, None if mask is None else Area.of(mask, cells.crs, globe)
    area = None if mask is None else Area.of(mask, known, globe)
    bounds = columns.bounds(array(model.X)) if area is None else area.bounds
    return Cells.over(bounds, side, crs, globe), area


def _require_bands(cells: Cells, columns: Columns) -> None:
    """Refuse cells that do not have the columns of a model beside the coordinates."""
    needed = ", ".join(map(repr, columns.others))
    if cells.raster is None:
        raise InputError(
            f"the model also needs {needed}, which cells do not have; give a raster whose bands are described by "
            f"these names, as grid, or predict at a NetCDF grid that has {needed} as a coordinate, too: "
            "cagp predict MODEL grid.nc, or grid.cagp.predict(model)"
        )
    with opened(cells.raster) as source:
        if columns.takes_only_band(source):
            LOGGER.warning(f"The only band of {cells.raster}, which has no description, is taken for {needed}.")
        elif missing := [name for name in columns.others if name not in source.descriptions]:
            raise InputError(
                f"the model also needs {needed}, and {cells.raster} has no band described as {missing[0]!r}, but "
                f"{', '.join(map(repr, source.descriptions))}; rasterio's set_band_description names a band"
            )


def write_map(
    model: Model,
    out: str | Path,
    grid: Any,
    *,
    mask: Any = None,
    observed: bool = False,
    level: float = 0.95,
    exceed: float | Sequence[float] = (),
    share: bool = False,
    stop: Rule | None = None,
    about: About | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Path:
    """Write a map of what a model predicts: a GeoTIFF (.tif), NetCDF (.nc) or Zarr (.zarr) file, by the ending of out.

    ``grid`` is the side of the cells, a number in the unit of the coordinates or such as "500m", over the data of the
    model; or a raster file, whose cells are taken, with the other columns of the model as bands that are described by
    their names (a single one for a single column need not be), in their unit by scale and offset. ``mask`` are
    polygons, a GeoDataFrame or a file: cells whose centre is outside, and those that the raster has no data for, are
    NaN. The coordinate system is that of the model, or of ``about`` where that does not say it; a mask in another one
    is converted, a raster is refused.

    The bands are mean, std, lower and upper, the ends of the central intervals of this ``level``, of f or, with
    ``observed``, of new observations; ``exceeds_50`` and so on for the thresholds ``exceed``; with ``share`` how much
    of the variance more computation could remove, at most. ``stop`` is that of ``Model.predict``. ``about`` has names
    and units, as for ``Model.save``. Tiles that are finished lie in OUT.parts until the map is written whole: after
    Ctrl-C or a kill the same call goes on where it stopped. Needs ``cagp[geo]``, for .nc and .zarr ``cagp[xarray]``.
    """
    asked: Any = {"mask": mask, "observed": observed, "level": level, "exceed": exceed, "share": share, "stop": stop}
    made = MapOfModel.of(model, out, grid, **asked, about=about, overwrite=overwrite)
    made.write(progress)
    return made.out
