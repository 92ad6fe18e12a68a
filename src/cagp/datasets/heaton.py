"""The simulated field of the spatial competition of Heaton et al. 2019: an exponential covariance, and cloud gaps."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from .dataset import Dataset
from .files import PublicFile, find

_FILE = PublicFile(
    "heaton_simulated.csv.gz",
    "https://github.com/finnlindgren/heatoncomparison/raw/32a64d2/Data/AllSimulatedTemps.RData",
    "b11a17fcefb5204da78bd968a96fc1e271f01ba42b7bf86f0a62c707ce8891ed",
)
_COLUMNS = ["Lon", "Lat", "MaskTemp", "TrueTemp"]
_ROWS = 150_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Competition(Dataset):
    """The observations to train on; ``X_gaps`` (T, 2) are the places in the gaps, ``y_gaps`` (T,) the truth there,
    to score against and never to fit to.
    """

    X_gaps: np.ndarray
    y_gaps: np.ndarray


def heaton() -> Competition:
    """150,000 places of a 500 × 300 grid: 105,569 simulated temperatures, and 44,431 in the gaps of a real image.

    The published file is in R's format; the loader reads the same table as CSV, heaton_simulated.csv.gz, with the
    columns Lon, Lat, MaskTemp (empty in the gaps) and TrueTemp.
    """
    _, path = find(_FILE)
    with gzip.open(path, "rt", newline="") as file:
        rows = csv.reader(file)
        if next(rows) != _COLUMNS:
            raise DataError(f"{path} does not have the columns {', '.join(_COLUMNS)}")
        table = np.array([[float(value) if value else np.nan for value in row] for row in rows])
    if table.shape != (_ROWS, len(_COLUMNS)):
        raise DataError(f"{path} has the shape {table.shape}, expected was {(_ROWS, len(_COLUMNS))}")
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
