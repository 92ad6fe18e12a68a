"""The problems of ``peers.py``: a field in the plane at three sizes with a known truth, a film and three tables.

The field is Gaussian with a Matérn 3/2 covariance, drawn exactly by FFT (circulant embedding) at the nodes of a fine
grid. Training points are nodes at random, none of them in the gaps; a fifth of the test points lie in gaps. A smaller
size is a part of a larger one, and the test points are the same for all. The film is a public field in space and time
with values missing at random, from the file that ``FILM`` names in the folder CAGP_DATA.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .contender import FIELD, SPACE_TIME, TABLE

LENGTHSCALE, VARIANCE, NOISE_VARIANCE = 0.05, 1.0, 0.04
"""The truth of the field; distances are those of the unit square."""

SIZES = (1_000, 10_000, 100_000)
TESTS = 5_000
_SIDE, _GAPS, _GAP_RADIUS = 1_500, 12, 0.04


@dataclass(frozen=True)
class Problem:
    """Training data, test data with noise, and which test points lie in gaps (none in a table)."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    in_gap: np.ndarray

    def first(self, n: int) -> Problem:
        """The same with the first ``n`` training and test points at most: something small to begin with."""
        return Problem(self.name, self.X[:n], self.y[:n], self.X_test[:n], self.y_test[:n], self.in_gap[:n])

    def save(self, path: Path) -> None:
        np.savez(path, X=self.X, y=self.y, X_test=self.X_test, y_test=self.y_test, in_gap=self.in_gap)

    @classmethod
    def load(cls, path: Path) -> Problem:
        with np.load(path) as arrays:
            return cls(path.stem, **{name: arrays[name] for name in arrays.files})


def field_name(n: int) -> str:
    return f"field-{n}"


TABLES = {"concrete": 927, "kin40k": 10_000, "bike": 15_000}
"""The tables, and how many rows are for training. All others are for testing, or 5,000 of them."""

FILM, TIMES = "kaust2022_2a_4.csv.gz", 10
"""The film of KAUST's competition of 2022, 1,000 places in the unit square, and how many of its 100 times are taken."""

ROWS = {**{field_name(n): n for n in SIZES}, "film": 8_987, **TABLES}
"""All problems by name, with the number of training rows."""

KIND = {name: FIELD if name.startswith("field") else SPACE_TIME if name == "film" else TABLE for name in ROWS}

TITLES = {
    **{field_name(n): f"A field in the plane, {n:,} observations" for n in SIZES},
    "film": "A field in the plane at ten times, 8,987 observations",
    "concrete": "Concrete, 927 rows, 8 columns",
    "kin40k": "kin40k, 10,000 rows, 8 columns",
    "bike": "Bike sharing, 15,000 rows, 12 columns",
}

SHORT = {
    **{field_name(n): f"the field of {n:,}" for n in SIZES},
    "film": "the field at ten times",
    **{name: name.capitalize() if name != "kin40k" else name for name in TABLES},
}
"""The problems within a sentence."""


def problem(name: str) -> Problem:
    """The problem of that name."""
    if name in TABLES:
        return _table(name)
    return film() if name == "film" else field(int(name.removeprefix("field-")))


def film() -> Problem:
    """The first times of the film; a tenth of its values, at random, are for testing."""
    folder = os.environ.get("CAGP_DATA")
    if not folder:
        raise FileNotFoundError(f"{FILM} is sought in the folder CAGP_DATA, which is not set")
    table = np.loadtxt(Path(folder) / FILM, delimiter=",", skiprows=1)
    table = table[table[:, 2] <= TIMES]
    train, test = (table[table[:, 4] == flag] for flag in (0, 1))
    return Problem("film", train[:, :3], train[:, 3], test[:, :3], test[:, 3], np.zeros(len(test), bool))


def field(n: int, side: int = _SIDE, tests: int = TESTS, seed: int = 0) -> Problem:
    """The field with ``n`` training points at nodes of a grid of ``side`` × ``side``."""
    rng = np.random.default_rng(seed)
    values = simulated(side, rng)
    centres = 0.1 + 0.8 * rng.random((_GAPS, 2))
    axis = np.linspace(0.0, 1.0, side)
    gap = np.zeros((side, side), bool)
    for x, y in centres:
        gap |= (axis[:, None] - x) ** 2 + (axis[None, :] - y) ** 2 < _GAP_RADIUS**2
    order = rng.permutation(side * side)
    inside = gap.ravel()[order]
    in_gaps, outside = order[inside][: tests // 5], order[~inside]
    scattered, train = np.split(outside, [tests - len(in_gaps)])
    if len(train) < n:
        raise ValueError(f"{n:,} training points do not fit on a grid of {side} × {side} with gaps")
    noise = np.sqrt(NOISE_VARIANCE) * rng.normal(size=(side, side)).ravel()
    test = np.concatenate([scattered, in_gaps])
    test = test[rng.permutation(len(test))]
    observed = values.ravel() + noise

    def points(nodes: np.ndarray) -> np.ndarray:
        return np.column_stack([axis[nodes // side], axis[nodes % side]])

    train = train[:n]
    return Problem(field_name(n), points(train), observed[train], points(test), observed[test], gap.ravel()[test])


def simulated(side: int, rng: np.random.Generator) -> np.ndarray:
    """An exact draw (side, side) on the unit square: embedded in a torus of twice the size, it has no negative part."""
    m = 2 * side
    d = np.minimum(np.arange(m), m - np.arange(m)) / (side - 1)
    r = np.sqrt(3) * np.hypot(d[:, None], d[None, :]) / LENGTHSCALE
    spectrum = np.fft.fft2(VARIANCE * (1 + r) * np.exp(-r)).real
    if spectrum.min() < -1e-9 * spectrum.max():
        raise ValueError(f"the embedding is not positive: {spectrum.min():g}; take a shorter lengthscale")
    white = rng.normal(size=(m, m)) + 1j * rng.normal(size=(m, m))
    return np.fft.fft2(np.sqrt(np.maximum(spectrum, 0.0) / m**2) * white).real[:side, :side]


@functools.cache
def _table(name: str) -> Problem:
    from cagp import datasets

    data = getattr(datasets, name)()
    rows = TABLES[name]
    order = np.random.default_rng(0).permutation(len(data.y))
    train, test = order[:rows], order[rows : rows + TESTS]
    return Problem(name, data.X[train], data.y[train], data.X[test], data.y[test], np.zeros(len(test), bool))
