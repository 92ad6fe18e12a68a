"""ERA5 2 metre temperature, 1 January 2024, 00:00 UTC: the field of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import DataError, InputError
from ..support.optional import optional
from ..support.validation import count
from .files import Dataset, PublicFile, find

_FILE = PublicFile(
    "era5_t2m_2024-01-01T00.nc",
    "https://github.com/tcarleton/stagg/raw/d5b0c8c519ef4455365b10c2634ff8cb6ab27a23/data-raw/ERA5_one_hour.nc",
    "cac0f4e98d16a92d2a8bce4a71ba3a60198d343af44a05e3aad858679510369d",
)
_SHAPE = (721, 1440)
_FIRST_ROW, _LAST_ROW = 5, 715


def _at(rows: np.ndarray, columns: np.ndarray, note: str) -> Dataset:
    """The points (rows[i], columns[i]) of the field."""
    h5py = optional("h5py", "reading ERA5", "data")
    _, path = find(_FILE)
    with h5py.File(path) as file:
        temperature = np.asarray(file["t2m"][0], dtype=np.float64)
        latitude, longitude = (np.asarray(file[name][:], dtype=np.float64) for name in ("latitude", "longitude"))
    if temperature.shape != _SHAPE or np.ptp(temperature[[0, -1]], axis=1).any():
        raise DataError(f"{path} is not the field that was expected: {_SHAPE} values, constant along each pole's row")
    return Dataset(
        name="era5",
        X=np.column_stack([latitude[rows], longitude[columns]]),
        y=temperature[rows, columns],
        names=("latitude", "longitude"),
        units=("degrees north", "degrees east"),
        target="2 metre temperature",
        target_unit="K",
        citation="H. Hersbach et al., ERA5 hourly data on single levels from 1940 to present, Copernicus Climate "
        "Change Service (C3S) Climate Data Store, doi 10.24381/cds.adbb2d47. 2024-01-01 00:00 UTC.",
        licence="contains modified Copernicus Climate Change Service information 2024; attribution required",
        path=path,
        note=note,
    )


def era5() -> Dataset:
    """All 1,035,362 distinct points, (latitude, longitude) in degrees and kelvin, from north to south, row by row.

    Each pole is one point: the 1,440 copies in its row of the 0.25° grid are dropped but for the first.
    """
    rows, columns = (index.ravel() for index in np.indices(_SHAPE))
    distinct = ((rows > 0) & (rows < _SHAPE[0] - 1)) | (columns == 0)
    return _at(rows[distinct], columns[distinct], "each pole once")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Era5Grid(Dataset):
    """A coarse grid of the field, in row-major order; ``rows`` (n_lat,) and ``columns`` (n_lon,) of the full one."""

    rows: np.ndarray
    columns: np.ndarray

    def held_out(self, n: int, seed: int = 0) -> Dataset:
        """n points of the full grid, drawn uniformly from those in this grid's first to last row that it lacks."""
        free = np.zeros(_SHAPE, dtype=bool)
        free[self.rows.min() : self.rows.max() + 1] = True
        free[np.ix_(self.rows, self.columns)] = False
        candidates = np.flatnonzero(free)
        if count(n, "n", minimum=1) > len(candidates):
            raise InputError(f"n={n} points to hold out, but the grid leaves {len(candidates)}; ask for fewer")
        chosen = np.random.default_rng(count(seed, "seed")).choice(candidates, n, replace=False)
        rows, columns = np.unravel_index(chosen, _SHAPE)
        return _at(rows, columns, f"{n} points held out from a {len(self.rows)} × {len(self.columns)} grid")


def era5_grid(n_lat: int, n_lon: int) -> Era5Grid:
    """A uniform grid of n_lat × n_lon points of the field, in row-major order, without the poles.

    Rows round(linspace(5, 715, n_lat)) and columns round(arange(n_lon) · 1440 / n_lon) of the 721 × 1440 field.
    """
    most = _LAST_ROW - _FIRST_ROW + 1
    if count(n_lat, "n_lat", minimum=2) > most or count(n_lon, "n_lon", minimum=1) > _SHAPE[1]:
        raise InputError(f"a grid has at most {most} × {_SHAPE[1]} points, got n_lat={n_lat}, n_lon={n_lon}")
    rows = np.round(np.linspace(_FIRST_ROW, _LAST_ROW, n_lat)).astype(int)
    columns = np.round(np.arange(n_lon) * _SHAPE[1] / n_lon).astype(int)
    grid = _at(np.repeat(rows, n_lon), np.tile(columns, n_lat), f"{n_lat} × {n_lon} grid, row-major")
    return Era5Grid(**vars(grid), rows=rows, columns=columns)
