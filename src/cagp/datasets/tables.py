"""Regression tables: one row an observation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import DataError
from .dataset import Dataset
from .files import PublicFile, find

_UCI = "https://archive.ics.uci.edu/static/public"
_COLLECTION = "https://github.com/treforevans/uci_datasets/raw/master/uci_datasets"

_CONCRETE = PublicFile(
    "concrete.csv",
    f"{_UCI}/165/concrete+compressive+strength.zip",
    "f656a971ce020d12a7d5e1d4aebd103aa28d99a164efca7125091a05380d3db2",
)
_CONCRETE_XLS = PublicFile("Concrete_Data.xls", _CONCRETE.url, member="Concrete_Data.xls")
_BIKE = PublicFile(
    "bike_hour.csv.gz",
    f"{_UCI}/275/bike+sharing+dataset.zip",
    "e2b01cdf412dbe19f34b3024c576b8102fd72f87462b063d674a3b194df2fc01",
)
_BIKE_CSV = PublicFile("bike_hour.csv", _BIKE.url, member="hour.csv")
_ROAD_START = PublicFile(
    "3droad_first_rows.csv",
    f"{_UCI}/246/3d+road+network+north+jutland+denmark.zip",
    "ea4982d4aeb8fc5275a4be691f14d295c16cbddc4c2f70c8a82148275dc86651",
)
_ROAD = PublicFile("3D_spatial_network.txt", _ROAD_START.url, member="3D_spatial_network.txt")
_ROAD_ROWS = 434_874
_KIN40K = PublicFile(
    "kin40k.csv.gz",
    f"{_COLLECTION}/kin40k/data.csv.gz",
    "9bee7f2a9f39aa61a015f239378368601fb3978c5bb9a96433e88a55d40883ba",
)
_PROTEIN = PublicFile(
    "protein.csv.gz",
    f"{_COLLECTION}/protein/data.csv.gz",
    "f709d0107c3ee90ab019b9e5d77fc2ae182158958cb70b1903236a51334fd01b",
)

_BIKE_INPUTS = {
    **dict.fromkeys(("season", "yr", "mnth"), ""),
    "hr": "h",
    **dict.fromkeys(("holiday", "weekday", "workingday", "weathersit"), ""),
    **dict.fromkeys(("temp", "atemp", "hum", "windspeed"), "normalised"),
}
"""Names and units."""
_BIKE_COLUMNS = ["instant", "dteday", *_BIKE_INPUTS, "casual", "registered", "cnt"]


def _check_shape(table: np.ndarray, shape: tuple[int, int], path: Path) -> None:
    if table.shape != shape:
        raise DataError(
            f"{path} has shape {table.shape}, expected {shape}: it is not the published file, or its publisher changed "
            "it; remove it to have it fetched again"
        )


def concrete() -> Dataset:
    """UCI 165: the compressive strength of 1,030 concrete mixtures from 8 inputs, in MPa.

    The publisher's archive holds an Excel file without a known hash: its shape is checked instead, and reading it
    needs xlrd. A table concrete.csv in CAGP_DATA is checked by its hash.
    """
    file, path = find(_CONCRETE, _CONCRETE_XLS)
    table = np.loadtxt(path, delimiter=",", skiprows=1) if file is _CONCRETE else _read_xls(path)
    _check_shape(table, (1030, 9), path)
    components = ("cement", "slag", "fly ash", "water", "superplasticizer", "coarse aggregate", "fine aggregate")
    return Dataset(
        name="concrete",
        X=table[:, :-1],
        y=table[:, -1],
        names=(*components, "age"),
        units=("kg/m³",) * 7 + ("d",),
        target="compressive strength",
        target_unit="MPa",
        citation="I-Cheng Yeh, Modeling of strength of high performance concrete using artificial neural networks, "
        "Cement and Concrete Research 28 (1998) 1797-1808. UCI Machine Learning Repository 165.",
        licence="reuse with the copyright notice of I-Cheng Yeh retained",
        path=path,
    )


def _read_xls(path: Path) -> np.ndarray:
    try:
        import xlrd  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(f"reading {path} needs xlrd: pip install 'cagp[data]'") from error
    sheet = xlrd.open_workbook(path).sheet_by_index(0)
    return np.array([sheet.row_values(row) for row in range(1, sheet.nrows)], dtype=np.float64)


def bike() -> Dataset:
    """UCI 275: bicycles hired per hour in Washington D.C., 17,379 hours of 2011 and 2012, from 12 inputs.

    Dropped: the row number and date, and the columns casual and registered, which add up to the target. The
    publisher's archive has no known hash: its columns and shape are checked instead.
    """
    _, path = find(_BIKE, _BIKE_CSV)
    header = np.loadtxt(path, delimiter=",", max_rows=1, dtype=str).tolist()
    if header != _BIKE_COLUMNS:
        raise DataError(f"{path} has the columns {header}, expected {_BIKE_COLUMNS}: it is not the published file")
    used = [header.index(name) for name in (*_BIKE_INPUTS, "cnt")]
    table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=used)
    _check_shape(table, (17_379, 13), path)
    return Dataset(
        name="bike",
        X=table[:, :-1],
        y=table[:, -1],
        names=tuple(_BIKE_INPUTS),
        units=tuple(_BIKE_INPUTS.values()),
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

    The published file has 434,874 rows and no known hash: its shape is checked. Where the folder CAGP_DATA has the
    first 5,000 rows only, these are returned and ``complete`` is False; ``full=True`` does not accept them.
    """
    file, path = find(_ROAD) if full else find(_ROAD_START, _ROAD)
    table = np.loadtxt(path, delimiter=",")
    complete = file is _ROAD
    _check_shape(table, (_ROAD_ROWS, 4) if complete else (5000, 3), path)
    return Dataset(
        name="road3d",
        X=table[:, -3:-1],
        y=table[:, -1],
        names=("longitude", "latitude"),
        units=("degrees east", "degrees north"),
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
    _check_shape(table, shape, path)
    inputs = shape[1] - 1
    return Dataset(
        name=name,
        X=table[:, :-1],
        y=table[:, -1],
        names=tuple(f"x{i}" for i in range(1, inputs + 1)),
        units=("",) * inputs,
        target="y",
        target_unit="",
        citation=f"{origin}; as prepared by T. W. Evans, github.com/treforevans/uci_datasets.",
        licence="MIT (the collection)",
        path=path,
        note="columns centred by the collection, which gives no names or units",
    )
