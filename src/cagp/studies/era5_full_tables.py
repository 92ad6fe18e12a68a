"""Reading the tables of the study of all ERA5 points."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .era5_full_config import FullConfig


def rows_of(
    table: pd.DataFrame, prior: str, solver: str, sample: str, k: int | None = None, m: int | None = None
) -> pd.DataFrame:
    """The rows of one method on one sample, and of one k or m where it is given."""
    chosen = (table["prior"] == prior) & (table["solver"] == solver) & (table["sample"] == sample)
    for column, value in (("k", k), ("m", m)):
        if value is not None:
            chosen &= table[column] == value
    return table[chosen]


def z_of(config: FullConfig, prior: str, rows: pd.DataFrame) -> np.ndarray:
    """Errors in units of the std of an observation."""
    z: np.ndarray = rows["error"].to_numpy() / np.hypot(rows["std"].to_numpy(), config.prior(prior).noise_std)
    return z
