"""Recalibrated fields on grids: the same numbers as with arrays, at once and in lazy blocks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import cagp
from cagp.errors import InputError, InputTypeError

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")

import cagp.interop.xarray as interop  # noqa: E402

PRIOR = cagp.Prior(cagp.Geographic(cagp.Matern32(0.5, 4.0)), mean=280.0, noise_variance=1e-3)
"""Far too little noise for the field below."""


def field() -> Any:
    lat, lon = np.arange(-80.0, 81.0, 10.0), np.arange(0.0, 360.0, 20.0)
    noise = 0.3 * np.random.default_rng(0).normal(size=(len(lat), len(lon)))
    values = 280 + 3 * np.cos(np.deg2rad(lat))[:, None] * np.sin(np.deg2rad(lon)) + noise
    return xr.DataArray(values, coords={"lat": lat, "lon": lon}, dims=("lat", "lon"), name="t2m", attrs={"units": "K"})


GRID = xr.Dataset(coords={"lat": np.linspace(-70, 70, 12), "lon": np.linspace(5, 340, 9)})
MENDED = field().cagp.condition(PRIOR, solver="cholesky", recalibrate=True)


def points(grid: Any) -> np.ndarray:
    return np.column_stack([each.ravel() for each in np.meshgrid(grid.lat, grid.lon, indexing="ij")])


@pytest.mark.parametrize("like", [None, GRID], ids=["anywhere", "like a grid"])
def test_by_hand(like: Any) -> None:
    conditioned = field().cagp.condition(PRIOR, solver="cholesky", recalibrate=True, like=like)
    model = PRIOR.condition(points(field()), field().values.ravel(), "cholesky")
    expected = model.recalibrated(like=None if like is None else points(like)).predict(points(GRID))
    for observed in (False, True):
        found = GRID.cagp.predict(conditioned, level=0.9, observed=observed)
        meant = expected.observed() if observed else expected
        np.testing.assert_allclose(found["mean"].values.ravel(), meant.mean, rtol=1e-9)
        np.testing.assert_allclose(found["std"].values.ravel(), meant.std, rtol=1e-6)
        np.testing.assert_allclose(found["upper"].values.ravel(), meant.interval(0.9)[1], rtol=1e-8)
    np.testing.assert_array_equal(
        conditioned.predict(GRID)["std"], interop.predict(conditioned.model, GRID, coords=("lat", "lon"))["std"]
    )


def test_lazy_blocks_have_the_same_numbers() -> None:
    whole = MENDED.predict(GRID, level=0.8, observed=True)
    lazy = MENDED.predict(GRID, level=0.8, observed=True, chunks={"lat": 5, "lon": 4})
    assert lazy["std"].chunks == ((5, 5, 2), (4, 4, 1))
    xr.testing.assert_allclose(lazy.compute(), whole)
    again = pickle.loads(pickle.dumps(MENDED)).predict(GRID, level=0.8, observed=True)  # on its way to a worker
    xr.testing.assert_allclose(again, whole)


def test_attributes_say_what_is_guaranteed() -> None:
    plain = field().cagp.condition(PRIOR, solver="cholesky")
    assert plain.predict(GRID).attrs["cagp_guarantee"].startswith("under the prior: ")
    assert MENDED.predict(GRID).attrs["cagp_guarantee"].startswith("empirical: ")
    kept = plain.model.recalibrated(calibration=(points(field()) + 3.0, field().values.ravel()))
    conformal = interop.predict(kept, GRID, coords=("lat", "lon"))
    assert conformal.attrs["cagp_guarantee"].startswith("marginal, distribution-free: ")
    none = field().cagp.condition(PRIOR, solver=cagp.ConjugateGradient(3))
    assert none.predict(GRID).attrs["cagp_guarantee"].startswith("none: ")


def test_recalibrated_again_starts_from_the_plain_model() -> None:
    again = MENDED.recalibrated()
    np.testing.assert_array_equal(again.predict(GRID)["std"], MENDED.predict(GRID)["std"])
    assert again.source == MENDED.source


def test_wrong_use() -> None:
    with pytest.raises(InputError, match="say recalibrate=True"):
        field().cagp.condition(PRIOR, like=GRID)
    with pytest.raises(InputTypeError, match="like must be an xarray"):
        field().cagp.condition(PRIOR, recalibrate=True, like=points(GRID))
    with pytest.raises(InputTypeError, match="like must be an xarray"):
        MENDED.recalibrated(like=points(GRID))
