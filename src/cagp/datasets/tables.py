"""Loaders: tables with one row an observation, a simulated field, and the field of the paper, which is of ERA5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, InputError
from ..support.advice import optional
from ..support.validation import count
from .files import Dataset, PublicFile, find, require_hash

_UCI = "https://archive.ics.uci.edu/static/public"
_COLLECTION = "https://github.com/treforevans/uci_datasets/raw/master/uci_datasets"

_SHA256 = {
    "concrete.csv": "f656a971ce020d12a7d5e1d4aebd103aa28d99a164efca7125091a05380d3db2",
    "bike_hour.csv.gz": "e2b01cdf412dbe19f34b3024c576b8102fd72f87462b063d674a3b194df2fc01",
    "bike_hour.csv": "e03de4ee4ef4dc376ac6e04bf829673c6269e8eba5c60fa121640fa2f829504f",
    "3droad_first_rows.csv": "ea4982d4aeb8fc5275a4be691f14d295c16cbddc4c2f70c8a82148275dc86651",
    "kin40k.csv.gz": "9bee7f2a9f39aa61a015f239378368601fb3978c5bb9a96433e88a55d40883ba",
    "protein.csv.gz": "f709d0107c3ee90ab019b9e5d77fc2ae182158958cb70b1903236a51334fd01b",
    "heaton_simulated.csv.gz": "b11a17fcefb5204da78bd968a96fc1e271f01ba42b7bf86f0a62c707ce8891ed",
    "era5_t2m_2024-01-01T00.nc": "cac0f4e98d16a92d2a8bce4a71ba3a60198d343af44a05e3aad858679510369d",
}


def _file(name: str, url: str, member: str | None = None) -> PublicFile:
    return PublicFile(name, url, _SHA256.get(name), member)


_CONCRETE = _file("concrete.csv", f"{_UCI}/165/concrete+compressive+strength.zip")
_CONCRETE_XLS = _file("Concrete_Data.xls", _CONCRETE.url, "Concrete_Data.xls")
_CONCRETE_NUMBERS = "8b9a7af0366e0f437ad04cfba6bb729ec0c3ea76fa780ff3d3f4d057356b6af6"
_BIKE = _file("bike_hour.csv.gz", f"{_UCI}/275/bike+sharing+dataset.zip")
_BIKE_CSV = _file("bike_hour.csv", _BIKE.url, "hour.csv")
_ROAD_START = _file("3droad_first_rows.csv", f"{_UCI}/246/3d+road+network+north+jutland+denmark.zip")
_ROAD = _file("3D_spatial_network.txt", _ROAD_START.url, "3D_spatial_network.txt")
_ROAD_ROWS = 434_874
_ROAD_NUMBERS = "11820b3b87eeea6e41056676b112143035befbadf28f7eaf55ccb6cc4fee3e7f"  # of the first 5,000 rows
_KIN40K = _file("kin40k.csv.gz", f"{_COLLECTION}/kin40k/data.csv.gz")
_PROTEIN = _file("protein.csv.gz", f"{_COLLECTION}/protein/data.csv.gz")
_HEATON = _file(
    "heaton_simulated.csv.gz",
    "https://github.com/finnlindgren/heatoncomparison/raw/32a64d2/Data/AllSimulatedTemps.RData",
)
_ERA5 = _file(
    "era5_t2m_2024-01-01T00.nc",
    "https://github.com/tcarleton/stagg/raw/d5b0c8c519ef4455365b10c2634ff8cb6ab27a23/data-raw/ERA5_one_hour.nc",
)
_SHAPE = (721, 1440)
_FIRST_ROW, _LAST_ROW = 5, 715

_BIKE_INPUTS = {  # names and units
    **dict.fromkeys(("season", "yr", "mnth"), ""),
    "hr": "h",
    **dict.fromkeys(("holiday", "weekday", "workingday", "weathersit"), ""),
    **dict.fromkeys(("temp", "atemp", "hum", "windspeed"), "normalised"),
}
_BIKE_COLUMNS = ["instant", "dteday", *_BIKE_INPUTS, "casual", "registered", "cnt"]


def _named_columns(path: Path, expected: list[str], used: Iterable[str]) -> np.ndarray:
    """The columns ``used`` of a table with a header, NaN where a field is empty; refuses another header."""
    header = np.loadtxt(path, delimiter=",", max_rows=1, dtype=str).tolist()
    if header != expected:
        raise DataError(f"{path} has the columns {header}, expected {expected}: it is not the published file")
    return np.genfromtxt(path, delimiter=",", skip_header=1, usecols=[header.index(name) for name in used])


def _check(table: np.ndarray, shape: tuple[int, int], path: Path, sha256: str | None = None) -> None:
    """Refuse another shape, and other numbers in the first 5,000 rows where they have a hash."""
    if table.shape != shape:
        why = "it is not the published file, or its publisher changed it; remove it to have it fetched again"
        raise DataError(f"{path} has shape {table.shape}, expected {shape}: {why}")
    require_hash(table[:5000].astype("<f8").tobytes(), sha256, f"{path} is", "of its numbers the")


def _named(table: np.ndarray, columns: Mapping[str, str]) -> dict[str, Any]:
    """X and y, the last column, of a table (n, p + 1), and the ``columns`` of X: names and units."""
    return {"X": table[:, :-1], "y": table[:, -1], "names": tuple(columns), "units": tuple(columns.values())}


def concrete() -> Dataset:
    """UCI 165: the compressive strength of 1,030 concrete mixtures from 8 inputs, in MPa.

    The publisher's archive holds an Excel file, which needs xlrd; its numbers are checked by their hash.
    """
    file, path = find(_CONCRETE, _CONCRETE_XLS)
    if file is _CONCRETE:
        table = np.loadtxt(path, delimiter=",", skiprows=1)
    else:
        sheet = optional("xlrd", f"reading {path}", "data").open_workbook(path).sheet_by_index(0)
        table = np.array([sheet.row_values(row) for row in range(1, sheet.nrows)], dtype=np.float64)
    _check(table, (1030, 9), path, _CONCRETE_NUMBERS)
    components = ("cement", "slag", "fly ash", "water", "superplasticizer", "coarse aggregate", "fine aggregate")
    return Dataset(
        name="concrete",
        **_named(table, dict.fromkeys(components, "kg/m³") | {"age": "d"}),
        target="compressive strength",
        target_unit="MPa",
        citation="I-Cheng Yeh, Modeling of strength of high performance concrete using artificial neural networks, "
        "Cement and Concrete Research 28 (1998) 1797-1808. UCI Machine Learning Repository 165.",
        licence="reuse with the copyright notice of I-Cheng Yeh retained",
        path=path,
    )


def bike() -> Dataset:
    """UCI 275: bicycles hired per hour in Washington D.C., 17,379 hours of 2011 and 2012, from 12 inputs.

    Dropped: the row number and date, and the columns casual and registered, which add up to the target.
    """
    _, path = find(_BIKE, _BIKE_CSV)
    table = _named_columns(path, _BIKE_COLUMNS, (*_BIKE_INPUTS, "cnt"))
    _check(table, (17_379, 13), path)
    return Dataset(
        name="bike",
        **_named(table, _BIKE_INPUTS),
        target="cnt",
        target_unit="hires per hour",
        citation="H. Fanaee-T and J. Gama, Event labeling combining ensemble detectors and background knowledge, "
        "Progress in Artificial Intelligence 2 (2013) 113-127. UCI Machine Learning Repository 275.",
        licence="cite the paper",
        path=path,
        note="without instant, dteday, casual and registered: the last two add up to the target",
    )


def road3d(full: bool = False) -> Dataset:
    """UCI 246: the altitude in metres of points on the roads of North Jutland, from longitude and latitude.

    The published file has 434,874 rows and no known hash: its shape is checked, and the first 5,000 rows by theirs.
    Where the folder CAGP_DATA has these only, they are returned and ``complete`` is False; ``full=True`` refuses them.
    """
    file, path = find(_ROAD) if full else find(_ROAD_START, _ROAD)
    table, complete = np.loadtxt(path, delimiter=","), file is _ROAD
    _check(table, (_ROAD_ROWS, 4) if complete else (5000, 3), path)
    table = table[:, -3:]
    _check(table, (len(table), 3), path, _ROAD_NUMBERS)
    return Dataset(
        name="road3d",
        **_named(table, {"longitude": "degrees east", "latitude": "degrees north"}),
        target="altitude",
        target_unit="m",
        citation="M. Kaul, B. Yang and C. S. Jensen, Building accurate 3D spatial networks to enable next generation "
        "intelligent transportation systems, IEEE MDM 2013. UCI Machine Learning Repository 246.",
        licence="cite the paper",
        path=path,
        complete=complete,
        note="" if complete else f"the first 5,000 of {_ROAD_ROWS:,} rows",
    )


def kin40k() -> Dataset:
    """kin40k: the forward dynamics of a robot arm with 8 joints, 40,000 rows, columns centred and of unit variance."""
    return _centred(_KIN40K, "kin40k", (40_000, 9), "the kin family of datasets, DELVE, University of Toronto")


def protein() -> Dataset:
    """Protein tertiary structure: 45,730 rows, 9 inputs, columns centred, as the collection of T. W. Evans has it."""
    return _centred(_PROTEIN, "protein", (45_730, 10), "P. S. Rana, UCI Machine Learning Repository 265")


def _centred(file: PublicFile, name: str, shape: tuple[int, int], origin: str) -> Dataset:
    _, path = find(file)
    table = np.loadtxt(path, delimiter=",")
    _check(table, shape, path)
    return Dataset(
        name=name,
        **_named(table, {f"x{i}": "" for i in range(1, shape[1])}),
        target="y",
        target_unit="",
        citation=f"{origin}; as prepared by T. W. Evans, github.com/treforevans/uci_datasets.",
        licence="MIT (the collection)",
        path=path,
        note="columns centred by the collection, which gives no names or units",
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Competition(Dataset):
    """Observations, places in the gaps ``X_gaps`` (T, 2), and ``y_gaps`` (T,), the truth there, never to fit to."""

    X_gaps: np.ndarray
    y_gaps: np.ndarray


def heaton() -> Competition:
    """The simulated field of the competition of Heaton et al. 2019, with an exponential covariance.

    150,000 places of a 500 × 300 grid: 105,569 simulated temperatures, and 44,431 in the gaps of a real image. The
    published file is in R's format; this reads the same table as heaton_simulated.csv.gz.
    """
    _, path = find(_HEATON)
    columns = ["Lon", "Lat", "MaskTemp", "TrueTemp"]
    table = _named_columns(path, columns, columns)
    _check(table, (150_000, 4), path)
    seen = ~np.isnan(table[:, 2])
    return Competition(
        name="heaton",
        X=table[seen, :2],
        y=table[seen, 2],
        X_gaps=table[~seen, :2],
        y_gaps=table[~seen, 3],
        names=("Lon", "Lat"),
        units=("degrees east", "degrees north"),
        target="temperature",
        target_unit="°C",
        citation="M. J. Heaton et al., A case study competition among methods for analyzing large spatial data, "
        "Journal of Agricultural, Biological and Environmental Statistics 24, 2019.",
        licence="as published with the paper",
        path=path,
        note="coordinates rounded to 6, values to 4 decimals",
    )


def _at(rows: np.ndarray, columns: np.ndarray, note: str) -> Dataset:
    """The points (rows[i], columns[i]) of the field."""
    h5py = optional("h5py", "reading ERA5", "data")
    _, path = find(_ERA5)
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
