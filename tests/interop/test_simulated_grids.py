"""Simulated fields on grids: the same numbers as with arrays, at once and in lazy blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cagp
from cagp.errors import InputError

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")

import cagp.interop.xarray as interop  # noqa: E402

PRIOR = cagp.Prior(cagp.Geographic(cagp.Matern32(0.5, 4.0)), mean=280.0, noise_variance=0.1)


def field() -> Any:
    lat, lon = np.arange(-80.0, 81.0, 20.0), np.arange(0.0, 360.0, 40.0)
    values = 280 + 3 * np.cos(np.deg2rad(lat))[:, None] * np.sin(np.deg2rad(lon))
    values[3, 4] = np.nan
    return xr.DataArray(values, coords={"lat": lat, "lon": lon}, dims=("lat", "lon"), name="t2m", attrs={"units": "K"})


GRID = xr.Dataset(coords={"lat": np.linspace(-70, 70, 6), "lon": np.linspace(5, 340, 5)})


def test_by_hand() -> None:
    conditioned = field().cagp.condition(PRIOR, solver="cholesky")
    found = GRID.cagp.simulate(3, conditioned, seed=1)
    X = np.column_stack([each.ravel() for each in np.meshgrid(GRID.lat, GRID.lon, indexing="ij")])
    wanted = conditioned.model.simulate(X, 3, seed=1).fields
    np.testing.assert_allclose(found.values.reshape(3, -1), wanted, rtol=1e-10)
    assert found.dims == ("realisation", "lat", "lon")
    assert found.name == "t2m"
    assert found.attrs["units"] == "K"
    assert "exact" in found.attrs["cagp_status"]
    np.testing.assert_allclose(interop.simulate(conditioned.model, GRID, 3, seed=1).values, found.values)
    noisy = conditioned.simulate(GRID, 3, seed=1, observed=True)
    assert not np.allclose(noisy.values, found.values)
    recalibrated = conditioned.recalibrated(progress=False).simulate(GRID, 3, seed=1)
    assert "empirical" in recalibrated.attrs["cagp_guarantee"]


def test_a_field_fills_its_gaps() -> None:
    found = field().cagp.simulate(2, field().cagp.condition(PRIOR, solver="cholesky"))
    assert found.shape == (2, 9, 9)
    assert np.isfinite(found.values).all()


def test_lazy_blocks_have_the_same_fields() -> None:
    conditioned = field().cagp.condition(PRIOR, solver="cholesky")
    whole = conditioned.simulate(GRID, 5, seed=2)
    lazy = conditioned.simulate(GRID, 5, seed=2, chunks={"realisation": 2})
    assert lazy.chunks == ((2, 2, 1), (6,), (5,))
    np.testing.assert_allclose(lazy.values, whole.values)
    cut = field().chunk({"lat": 3})
    assert cut.cagp.simulate(2, conditioned).chunks is not None


def test_bad_input_is_refused() -> None:
    conditioned = field().cagp.condition(PRIOR, solver="cholesky")
    with pytest.raises(InputError, match="realisation"):
        conditioned.simulate(GRID, 2, chunks={"lat": 3})
    with pytest.raises(InputError, match="rename"):
        conditioned.simulate(GRID.assign_coords(realisation=3), 2)
    with pytest.raises(InputError, match="n must"):
        conditioned.simulate(GRID, 0)
