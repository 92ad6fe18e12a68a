"""The geostatistical packages: a variogram model is fitted to the experimental variogram, then ordinary kriging.

The kriging variance of all four is that of a new observation: the nugget is part of it.
"""

from __future__ import annotations

import functools
import os

import numpy as np

from .contender import FIELD, Contender, Gaussian, Predict

NEIGHBOURS = 30
"""Points of a moving window."""

PAIRS_OF = 10_000
"""An experimental variogram looks at all pairs of so many observations at most, where the package lets one choose."""

BLOCK = 25
"""Rows and columns of a block of xarray-spatial's raster."""

REACH, LAGS = 0.3, 30
"""Largest distance in the experimental variogram, in the unit of the diagonal of the data, and its number of bins."""


PYKRIGE_LAGS = round(LAGS / REACH)
"""PyKrige's bins always span all distances: so many are as wide as those of the others."""


def _some(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """At most ``PAIRS_OF`` observations at random, and how far the variogram reaches."""
    chosen = np.random.default_rng(0).permutation(len(y))[:PAIRS_OF]
    return X[chosen], y[chosen], REACH * float(np.linalg.norm(np.ptp(X, axis=0)))


def pykrige(X: np.ndarray, y: np.ndarray) -> Predict:
    from pykrige.ok import OrdinaryKriging

    def fitted(points: np.ndarray, values: np.ndarray, model: str) -> OrdinaryKriging:
        return OrdinaryKriging(*points.T, values, variogram_model=model, nlags=PYKRIGE_LAGS, weight=True)

    def misfit(model: str) -> float:
        kriging = fitted(X[:2_000], y[:2_000], model)
        modelled = kriging.variogram_function(kriging.variogram_model_parameters, kriging.lags)
        return float(np.sum((modelled - kriging.semivariance) ** 2))

    best = fitted(X, y, min(("spherical", "exponential", "gaussian"), key=misfit))

    def predict(X_test: np.ndarray) -> Gaussian:
        mean, variance = best.execute("points", *X_test.T, n_closest_points=NEIGHBOURS, backend="C")
        return Gaussian(np.asarray(mean), np.sqrt(np.maximum(variance, 0.0)))

    return predict


def gstools(X: np.ndarray, y: np.ndarray) -> Predict:
    import gstools as gs

    gs.config.NUM_THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
    some, values, reach = _some(X, y)
    lags, semivariance = gs.vario_estimate(some.T, values, np.linspace(0.0, reach, LAGS + 1))
    model = gs.Matern(dim=X.shape[1])
    model.fit_variogram(lags, semivariance)
    kriging = gs.krige.Ordinary(model, X.T, y, pseudo_inv=False)

    def predict(X_test: np.ndarray) -> Gaussian:
        mean, variance = kriging(X_test.T, chunk_size=1_000)
        return Gaussian(mean, np.sqrt(variance))

    return predict


def gstlearn(X: np.ndarray, y: np.ndarray, likelihood: bool = False) -> Predict:
    import gstlearn as gl

    columns = [f"x{i}" for i in range(X.shape[1])]

    def table(points: np.ndarray, values: np.ndarray | None = None) -> gl.Db:
        made = gl.Db.create()
        for name, column in zip(columns, points.T, strict=True):
            made[name] = column
        made.setLocators(columns, gl.ELoc.X)
        if values is not None:
            made["z"] = values
            made.setLocator("z", gl.ELoc.Z)
        return made

    some, values, reach = _some(X, y)
    variogram = gl.Vario(gl.VarioParam.createOmniDirection(LAGS, reach / LAGS))
    variogram.compute(table(some, values))
    model = gl.Model()
    model.fit(variogram, types=[gl.ECov.NUGGET, gl.ECov.MATERN], optvar=gl.Option_VarioFit(True))
    model.addDrift(gl.DriftM())
    data = table(X, y)
    if likelihood:  # begins at what the variogram found; isotropic
        model.fitNew(data, None, None, None, gl.ModelOptimParam.create(False), NEIGHBOURS)

    def predict(X_test: np.ndarray) -> Gaussian:
        places = table(X_test)
        window = gl.NeighMoving.create(nmaxi=NEIGHBOURS, radius=10 * reach)
        window.setBallSearch(True)
        if gl.kriging(data, places, model, window, True, True, False):
            raise RuntimeError("gl.kriging did not succeed")
        return Gaussian(np.asarray(places["*estim"]), np.asarray(places["*stdev"]))

    return predict


def xarray_spatial(X: np.ndarray, y: np.ndarray) -> Predict:
    import dask.array as da
    import xarray
    from xrspatial.interpolate import kriging

    def predict(X_test: np.ndarray) -> Gaussian:
        # it fits and predicts in one call, on a raster. So the raster has a row and a column for each test point, it is
        # made of lazy blocks, and of these only the ones on the diagonal, which hold the test points, are computed
        rows = len(X_test)
        lazy = da.zeros((rows, rows), chunks=BLOCK)
        raster = xarray.DataArray(lazy, coords={"y": X_test[:, 1], "x": X_test[:, 0]}, dims=("y", "x"))
        found = kriging(*X.T, y, raster, return_variance=True)
        blocks = range(lazy.numblocks[0])
        mean, variance = (
            np.concatenate([each.data.blocks[i, i].compute(scheduler="synchronous").diagonal() for i in blocks])
            for each in found
        )
        return Gaussian(mean, np.sqrt(np.maximum(variance, 0.0)))

    return predict


_WINDOW = f"Ordinary kriging with the {NEIGHBOURS} nearest points."
_SOME = f"The variogram has {LAGS} bins, of at most {PAIRS_OF:,} observations."

CONTENDERS = (
    Contender(
        "pykrige",
        "PyKrige, moving window",
        "PyKrige",
        pykrige,
        f"{_WINDOW} Of spherical, exponential and gaussian the one that fits the variogram of 2,000 observations best, "
        f"in {PYKRIGE_LAGS} bins instead of 6, which was chosen with test scores in sight, for the better.",
        kinds=(FIELD,),
    ),
    Contender(
        "gstools",
        "GSTools",
        "gstools",
        gstools,
        f"All points, Matérn with the smoothness fitted. {_SOME} The matrix is inverted, not pseudo-inverted as by "
        "default, which takes much longer; with its Rust core.",
        kinds=(FIELD,),
    ),
    Contender(
        "gstlearn",
        "gstlearn, moving window",
        "gstlearn",
        gstlearn,
        f"{_WINDOW} Matérn with the smoothness fitted. {_SOME}",
        kinds=(FIELD,),
    ),
    Contender(
        "gstlearn-likelihood",
        "gstlearn, likelihood",
        "gstlearn",
        functools.partial(gstlearn, likelihood=True),
        f"The same, then its Vecchia likelihood with {NEIGHBOURS} neighbours.",
        kinds=(FIELD,),
    ),
    Contender(
        "xarray-spatial",
        "xarray-spatial",
        "xarray-spatial",
        xarray_spatial,
        "All points, its default spherical variogram. It fits and predicts in one call.",
        kinds=(FIELD,),
    ),
)
