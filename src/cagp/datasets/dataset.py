"""What a loader returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Dataset:
    """Points ``X`` (n, p) and observations ``y`` (n,), float64, with what one must know to use them.

    ``names`` and ``units`` describe the columns of X, ``target`` and ``target_unit`` describe y. ``path`` is the file
    that was read. ``complete`` is False where it holds part of the published data only; ``note`` says what was done
    to the data or is missing.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    units: tuple[str, ...]
    target: str
    target_unit: str
    citation: str
    licence: str
    path: Path
    complete: bool = True
    note: str = ""

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        part = "" if self.complete else ", incomplete"
        return f"{type(self).__name__}({self.name!r}, X {self.X.shape}, target {self.target!r}{part})"
