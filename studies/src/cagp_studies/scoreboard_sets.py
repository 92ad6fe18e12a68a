"""The sets of the scoreboard: what is given, what is to be predicted, and the prior that a field was drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.interpolate import CubicSpline
from scipy.special import kv

import cagp
from cagp import datasets
from cagp.datasets.files import cache_folder, data_folder, require_hash

from .heaton import TRUE_PRIOR
from .heaton_data import SATELLITE, SIMULATED, load
from .problem import Problem, generator
from .relocated import ERA5, RelocatedPiece, problem_at

_SHA256 = {
    "kaust2021_nu06.csv.gz": "867e9ae641f48c58a3e2e5a3c0a6f130ac14d76bac42f88ff9f8e1c562caf02e",
    "kaust2021_nu15.csv.gz": "7c6dd77d3a3e34eba7a429fa52e46fbce4369fab89cab1560e02ab5a23df430c",
    "kaust2021_nu23.csv.gz": "e99f8233ff4a93707678f18b66bad9f208bad5d1907e1fb5f579bcdf8e8efdf9",
    "kaust2021_nu23_nugget.csv.gz": "6f3e1392408a32e28743c655d754a83ed30da110c91e0937ee1bf7ffe8640f53",
    "kaust2022_2a_1.csv.gz": "f82218a7a09b65f6e63bad6f415d7a3007cfc5533aec544be9d48e31366d9e54",
    "kaust2022_2a_4.csv.gz": "b2f7de9f1053310b14ccbc78ea491f15793aa9b47f536563f6f908405fbc1f99",
    "kaust2022_2a_7.csv.gz": "09011902c803e62a55a1810e2613839e59739358e340f0ac920a4fa84e3b7d2b",
    "jura.csv": "db2f36b93e2d13aded7feeb623c0d32b58bfcfcaf0648263e0d14df65b4f97d4",
    "meuse.csv": "5ed984e992e32bfedb3e3e2c21306cd669739c4f8af6d0a5e46fd2236f943160",
}
"""Files that no loader of cagp fetches, and what they hash to."""

_ERA5_ROWS, _ERA5_TESTS = 10_000, 2000
_THINNED = 2  # one row and column in so many of the grids that a mask is laid over
_TABLE_FOLDS = 10  # a part of a table holds out one of so many folds


_NEAREST, _FURTHEST = 1e-8, 50.0  # distances in lengthscales: nearer is 1 and further is 0 to working precision


@cache
def _correlation(order: float) -> CubicSpline:
    """s^ν K_ν(s) 2^(1 − ν) / Γ(ν) by the logarithm of s, to twelve digits: Bessel functions take long."""
    s = np.geomspace(_NEAREST, _FURTHEST, 20_000)
    return CubicSpline(np.log(s), s**order * kv(order, s) * (2 ** (1 - order) / math.gamma(order)))


@dataclass(frozen=True)
class Matern(cagp.kernels.Radial):
    """A Matérn covariance of any ``order`` ν: s^ν K_ν(s) 2^(1 − ν) / Γ(ν) of the distance s in lengthscales."""

    order: float = 1.5

    hyperparameters = (*cagp.kernels.Radial.hyperparameters, "order")

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        distance = s.sqrt().numpy()
        found = _correlation(self.order)(np.log(distance.clip(_NEAREST, _FURTHEST)))
        values = torch.from_numpy(np.where(distance < _NEAREST, 1.0, np.where(distance > _FURTHEST, 0.0, found)))
        return values if scratch is None else s.copy_(values)


@dataclass(frozen=True)
class ScoredSet:
    """One row of the scoreboard: ``parts`` problems, each made by ``problem(part, seed)``.

    ``parts`` are ``of`` masks or splits. With ``gaps`` the places to predict are given to the fit as ``like``.
    ``oracle`` is what the data were drawn from, where that is known, which predicts from so many ``neighbours`` and, in
    gaps, as many far ones; ``file`` is the file of _SHA256 that is needed.
    """

    title: str
    problem: Callable[[int, int], Problem]
    parts: int = 1
    of: str = ""
    gaps: bool = False
    globe: tuple[int, int] | None = None
    oracle: cagp.Prior | None = None
    neighbours: int = 60
    file: str | None = None

    def here(self) -> bool:
        """Whether the file is here, where a loader would not fetch it."""
        return self.file is None or _path(self.file) is not None


def _path(name: str) -> Path | None:
    places = (folder / name for folder in (data_folder(), cache_folder()) if folder is not None)
    return next((path for path in places if path.is_file()), None)


def _table(name: str) -> pd.DataFrame:
    path = _path(name)
    assert path is not None, name
    require_hash(path.read_bytes(), _SHA256[name], f"{path} is", "its")
    return pd.read_csv(path)


def _competition(field: str, part: int, seed: int) -> Problem:
    """All the gaps; NaN where nobody knows what is in them."""
    own = load(field)
    return Problem(own.given.X, own.given.y, own.given.gaps, own.truth)


def _masked(case: str, part: int, seed: int) -> Problem:
    """A mask at a place of its own on what was observed, as in the study ``relocated``."""
    return problem_at(RelocatedPiece(case, part), _THINNED, seed)


def _era5(part: int, seed: int) -> Problem:
    """Random places on the globe."""
    data = datasets.era5()
    chosen = generator(seed, part).choice(len(data), _ERA5_ROWS + _ERA5_TESTS, replace=False)
    train, test = chosen[:_ERA5_ROWS], chosen[_ERA5_ROWS:]
    return Problem(data.X[train], data.y[train], data.X[test], data.y[test])


def _marked(name: str, part: int, seed: int) -> Problem:
    """What the organisers marked with ``test`` is to be predicted: the last column but one from those before."""
    table = _table(name)
    test = table.pop("test").to_numpy() == 1
    values = table.to_numpy(dtype=np.float64)
    return Problem(values[~test, :-1], values[~test, -1], values[test, :-1], values[test, -1])


def _jura(part: int, seed: int) -> Problem:
    """Cadmium at the published validation places, from the coordinates."""
    table = _table("jura.csv")
    test = (table["set"] == "validation").to_numpy()
    X, y = table[["Xloc", "Yloc"]].to_numpy(), table["Cd"].to_numpy()
    return Problem(X[~test], y[~test], X[test], y[test])


def _fold(X: np.ndarray, y: np.ndarray, folds: int, part: int, seed: int) -> Problem:
    """One of so many folds is held out; which row is in which is drawn once."""
    fold = generator(seed, 0).permutation(len(y)) % folds
    test = fold == part
    return Problem(X[~test], y[~test], X[test], y[test])


def _meuse(part: int, seed: int) -> Problem:
    """Zinc from the coordinates."""
    table = _table("meuse.csv")
    return _fold(table[["x", "y"]].to_numpy(), table["zinc"].to_numpy(), 5, part, seed)


def _loaded(name: str, part: int, seed: int) -> Problem:
    data: datasets.Dataset = getattr(datasets, name)()
    return _fold(data.X, data.y, _TABLE_FOLDS, part, seed)


def _kaust2021(name: str, lengthscale: float, order: float, noise: float | None = None) -> ScoredSet:
    """A field whose covariance the organisers published, but for the noise of the one that has some."""
    file, kernel = f"kaust2021_{name}.csv.gz", Matern(lengthscale, 1.5, order)
    more = ", with noise" if noise else ""
    return ScoredSet(
        f"KAUST 2021, smoothness {order}{more}",
        partial(_marked, file),
        oracle=cagp.Prior(kernel, mean=cagp.Zero(), noise_variance=noise or _NOISE_FREE),
        neighbours=120 if noise else 60,  # noise is averaged over more of them
        file=file,
    )


def _kaust2022(number: int, what: str, gaps: bool) -> ScoredSet:
    file = f"kaust2022_2a_{number}.csv.gz"
    return ScoredSet(f"KAUST 2022, space-time {number}, {what}", partial(_marked, file), gaps=gaps, file=file)


# the organisers name no noise of nu23_nugget: half the mean square of differences between nearest neighbours is 0.2684
# ± 0.0012, of which 0.0003 are the field's
_NUGGET = 0.268
_NOISE_FREE = 1e-8

SETS: Mapping[str, ScoredSet] = {
    "heaton-simulated": ScoredSet("Heaton, simulated", partial(_competition, SIMULATED), gaps=True, oracle=TRUE_PRIOR),
    "heaton-satellite": ScoredSet("Heaton, satellite", partial(_competition, SATELLITE), gaps=True),
    "satellite-masks": ScoredSet("satellite, its clouds elsewhere", partial(_masked, SATELLITE), 4, "masks", gaps=True),
    "kaust2021-nu06": _kaust2021("nu06", 0.247462, 0.6),
    "kaust2021-nu15": _kaust2021("nu15", 0.02108, 1.5),
    "kaust2021-nu23": _kaust2021("nu23", 0.017526, 2.3),
    "kaust2021-nu23-nugget": _kaust2021("nu23_nugget", 0.052579, 2.3, _NUGGET),
    "kaust2022-1": _kaust2022(1, "places", gaps=True),
    "kaust2022-4": _kaust2022(4, "at random", gaps=False),
    "kaust2022-7": _kaust2022(7, "forecast", gaps=True),
    "jura": ScoredSet("Jura, cadmium", _jura, file="jura.csv"),
    "meuse": ScoredSet("Meuse, zinc", _meuse, 5, "folds", file="meuse.csv"),
    "era5-scattered": ScoredSet("ERA5, scattered", _era5, 3, "draws", globe=(0, 1)),
    "era5-masks": ScoredSet("ERA5, rectangles", partial(_masked, ERA5), 4, "masks", gaps=True, globe=(0, 1)),
    "concrete": ScoredSet("Concrete", partial(_loaded, "concrete"), 5, "folds"),
    "bike": ScoredSet("Bike", partial(_loaded, "bike"), 3, "folds"),
    "protein": ScoredSet("protein", partial(_loaded, "protein"), 3, "folds"),
    "kin40k": ScoredSet("kin40k", partial(_loaded, "kin40k"), 3, "folds"),
}
"""By name, in the order of the table."""
