"""The two fields of the competition of Heaton et al. 2019: what a competitor is given and, apart from it, the truth."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

from cagp import datasets
from cagp.datasets.files import cache_folder, data_folder
from cagp.errors import DataError

SIMULATED, SATELLITE = "simulated", "satellite"

CITATION = (
    "M. J. Heaton et al., A case study competition among methods for analyzing large spatial data, Journal of "
    "Agricultural, Biological and Environmental Statistics 24 (2019), 398–425, doi 10.1007/s13253-018-00348-w"
)
REPOSITORY = "https://github.com/finnlindgren/heatoncomparison"
SOURCE = f"{REPOSITORY}, folder Data"

ENVIRONMENT = "CAGP_SATELLITE"
"""The environment variable that names the file of the satellite data, where that is not in CAGP_DATA."""

# as published; the simulated one under its short name is cagp.datasets.heaton
_STEMS = {SIMULATED: ("AllSimulatedTemps",), SATELLITE: ("AllSatelliteTemps", "heaton_satellite")}
_ENDINGS = (".csv", ".csv.gz", ".parquet", ".rdata", ".rda")
_COLUMNS = ["Lon", "Lat", "MaskTemp", "TrueTemp"]


@dataclass(frozen=True, eq=False)
class Given:
    """What a competitor gets: temperatures ``y`` (n,) seen at ``X`` (n, 2), longitude and latitude, and the places
    ``gaps`` (T, 2) that no temperature is given for. No test value is in here.
    """

    X: np.ndarray
    y: np.ndarray
    gaps: np.ndarray


@dataclass(frozen=True, eq=False)
class Field:
    """What is ``given``, and the ``truth`` (T,) in the gaps to score against, NaN where nobody knows it.

    ``path`` is the file that was read; ``whole`` is False for a part of the field.
    """

    name: str
    given: Given
    truth: np.ndarray
    path: Path
    whole: bool = True

    def thinned(self, every: int) -> Field:
        """Every so many-th row and column of the grid: the same gaps, with fewer points."""
        if every == 1:
            return self
        places = np.concatenate([self.given.X, self.given.gaps])
        kept = np.ones(len(places), dtype=bool)
        for column in places.T:
            kept &= np.unique(column, return_inverse=True)[1] % every == 0
        seen, gaps = kept[: len(self.given.y)], kept[len(self.given.y) :]
        given = Given(self.given.X[seen], self.given.y[seen], self.given.gaps[gaps])
        return replace(self, given=given, truth=self.truth[gaps], whole=False)


def satellite_file() -> Path | None:
    """The file of the satellite data: the one that CAGP_SATELLITE names, or one in CAGP_DATA or the cache, or None."""
    named = os.environ.get(ENVIRONMENT)
    path = Path(named).expanduser() if named else _found(SATELLITE)
    if path is not None and path.is_file():
        _reader(path)  # what is missing to read it is said now, and not after the other field
    elif path is not None:
        raise DataError(
            f"the environment variable {ENVIRONMENT} names {path}, which is not a file; correct or unset it"
        )
    return path


def satellite_content() -> str | None:
    """Twelve digits that tell the satellite data from those of another file; None where there is none."""
    path = satellite_file()
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def load(name: str) -> Field:
    """The field of that name, "simulated" or "satellite"."""
    if name == SATELLITE:
        path = satellite_file()
        if path is None:
            raise DataError(
                f"the satellite data are not here: put {_STEMS[SATELLITE][0]}.RData ({SOURCE}), or the same table as "
                f".csv or .parquet, into the folder CAGP_DATA, or name the file in {ENVIRONMENT}"
            )
        return read_field(path, SATELLITE)
    own = _found(SIMULATED)
    if own is not None:
        return read_field(own, SIMULATED)
    try:
        data = datasets.heaton()
    except DataError as error:
        error.add_note(
            f"{_STEMS[SIMULATED][0]}.RData ({SOURCE}), or the same table as .csv or .parquet, will do as well."
        )
        raise
    return Field(SIMULATED, Given(data.X, data.y, data.X_gaps), data.y_gaps, data.path)


def read_field(path: Path, name: str) -> Field:
    """A field from a table with the columns Lon, Lat, MaskTemp and TrueTemp: CSV, Parquet, or a data frame of R."""
    table = _table(path)
    missing = [column for column in _COLUMNS if column not in table]
    if missing:
        raise DataError(
            f"{path} has no column {', '.join(missing)}; the table of the competition has {', '.join(_COLUMNS)}, and "
            f"this one {', '.join(map(str, table.columns))}"
        )
    try:
        longitude, latitude, seen, truth = (table[column].to_numpy(dtype=np.float64) for column in _COLUMNS)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: the columns {', '.join(_COLUMNS)} must be numbers ({error})") from error
    places = np.column_stack([longitude, latitude])
    if not np.isfinite(places).all():
        row = int((~np.isfinite(places)).any(axis=1).argmax()) + 1
        raise DataError(f"{path}: row {row} has no Lon or Lat; every place needs both")
    masked = np.isnan(seen)
    if masked.all() or not masked.any():
        which = "no temperature" if masked.all() else "no gap"
        raise DataError(f"{path} has {which} in MaskTemp, which must be empty in the gaps and nowhere else")
    return Field(name, Given(places[~masked], seen[~masked], places[masked]), truth[masked], path)


def _found(name: str) -> Path | None:
    """The file of a field, with any ending that can be read, in CAGP_DATA or in the cache."""
    for folder in (data_folder(), cache_folder()):
        here = {path.name.lower(): path for path in folder.iterdir()} if folder is not None and folder.is_dir() else {}
        for stem in _STEMS[name]:
            for ending in _ENDINGS:
                if (path := here.get(f"{stem.lower()}{ending}")) is not None:
                    return path
    return None


def _table(path: Path) -> pd.DataFrame:
    read = _reader(path)
    try:
        return read(path)
    except (OSError, ValueError, EOFError, NotImplementedError) as error:
        raise DataError(f"{path} cannot be read ({error}); it is damaged, truncated or of another kind") from error


def _reader(path: Path) -> Callable[[Path], pd.DataFrame]:
    """What reads such a file; refused where nothing does, or where a package for it is missing."""
    name = path.name.lower()
    if not name.endswith(_ENDINGS):
        raise DataError(f"{path} is none of the files that can be read: {', '.join(_ENDINGS)}")
    if name.endswith((".csv", ".csv.gz")):
        return pd.read_csv
    needed, extra = ("pyarrow", "parquet") if name.endswith(".parquet") else ("rdata", "r")
    try:
        import_module(needed)
    except ImportError as error:
        raise ImportError(
            f"reading {path} needs {needed}: pip install 'cagp-studies[{extra}]', or save the table as .csv"
        ) from error
    return pd.read_parquet if needed == "pyarrow" else _data_frame_of_r


def _data_frame_of_r(path: Path) -> pd.DataFrame:
    """The data frame in a file of R's ``save``; the first one, where there are several."""
    import rdata

    for value in rdata.read_rda(path).values():
        if isinstance(value, pd.DataFrame):
            return value
    raise ValueError("it holds no data frame")
