"""Means over regions of a grid: which cells count, how much, and what the result says about itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import cagp

xr = pytest.importorskip("xarray")
from cagp.interop import xarray as interop  # noqa: E402

LAT, LON = np.arange(-60.0, 61.0, 20.0), np.arange(0.0, 360.0, 40.0)
PRIOR = cagp.Prior(cagp.Geographic(cagp.Matern32(0.6, 40.0)), mean=285.0, noise_variance=0.5)


def _field() -> Any:
    rng = np.random.default_rng(0)
    values = 285 + 5 * np.cos(np.deg2rad(LAT))[:, None] + rng.normal(size=(len(LAT), len(LON)))
    values[1, 2] = np.nan
    attributes = {"units": "K", "long_name": "temperature"}
    return xr.DataArray(values, {"lat": LAT, "lon": LON}, ("lat", "lon"), name="t2m", attrs=attributes)


FIELD = _field()
CONDITIONED = FIELD.cagp.condition(PRIOR, solver=cagp.Cholesky())
GRID = xr.Dataset(coords={"latitude": np.linspace(-50, 50, 6), "longitude": np.linspace(-170, 150, 5)})
POINTS = np.array([(a, b) for a in GRID.latitude.values for b in GRID.longitude.values])
DENSE = CONDITIONED.model.predict(POINTS)


def _by_hand(inside: np.ndarray) -> tuple[float, float]:
    weights = np.where(inside, np.cos(np.deg2rad(POINTS[:, 0])), 0)
    weights /= weights.sum()
    return float(weights @ DENSE.mean), float(np.sqrt(weights @ DENSE.covariance() @ weights))


def test_whole_grid_a_mask_and_a_box() -> None:
    everything = CONDITIONED.average(GRID, level=0.9)
    mean, std = _by_hand(np.ones(len(POINTS), dtype=bool))
    assert everything["mean"].dims == ()
    assert_allclose([everything["mean"], everything["std"]], [mean, std], rtol=1e-9)
    assert_allclose(everything["upper"] - everything["mean"], 1.6448536269514722 * std, rtol=1e-9)
    north = xr.where(GRID.latitude > 0, True, False).broadcast_like(xr.zeros_like(GRID.longitude)).rename("north")
    for found in (
        GRID.cagp.average(north, CONDITIONED),
        CONDITIONED.average(GRID, {"latitude": slice(0, 90)}),
        interop.average(CONDITIONED, GRID, north.transpose()),
    ):
        assert_allclose([found["mean"], found["std"]], _by_hand(POINTS[:, 0] > 0), rtol=1e-9)
        assert int(found["cells"]) == 15
    assert everything["mean"].attrs["units"] == "K"
    assert everything["mean"].attrs["cell_methods"] == "area: mean"
    assert everything.attrs["cagp_weights"] == "area"
    assert everything.attrs["cagp_guarantee"].startswith("under the prior")


def test_labels() -> None:
    bands = xr.DataArray(
        np.array(["south", "south", "middle", "middle", "north", "north"]), {"latitude": GRID.latitude}, name="band"
    )
    found = CONDITIONED.average(GRID.assign_coords(band=bands), "band", covariance=True)
    assert found["band"].values.tolist() == ["middle", "north", "south"]
    assert_allclose(
        [found["mean"].sel(band="north"), found["std"].sel(band="north")], _by_hand(POINTS[:, 0] > 20), rtol=1e-9
    )
    assert_allclose(np.sqrt(np.diag(found["covariance"])), found["std"], rtol=1e-9)
    numbers = xr.DataArray([0.0, 0.0, np.nan, np.nan, 1.0, 1.0], {"latitude": GRID.latitude}, name="latitude")
    some = CONDITIONED.average(GRID, numbers, weights="equal", observed=True)
    assert some["region"].values.tolist() == [0.0, 1.0]
    weights = (POINTS[:, 0] > 20) / 10
    assert_allclose(some["mean"][1], weights @ DENSE.mean, rtol=1e-9)
    assert_allclose(some["std"][1] ** 2, weights @ (DENSE.covariance() + 0.5 * np.eye(30)) @ weights, rtol=1e-8)
    given = xr.DataArray([0.0, 0, 0, 0, 1, 3], {"latitude": GRID.latitude})
    weights = np.repeat([0, 0, 0, 0, 1, 3], 5) / 20
    assert_allclose(CONDITIONED.average(GRID, weights=given)["mean"], weights @ DENSE.mean, rtol=1e-9)


def test_a_field_fills_its_own_gaps() -> None:
    found = FIELD.cagp.average(model=CONDITIONED)
    whole = CONDITIONED.average(FIELD)
    assert_allclose(found["mean"], whole["mean"], rtol=1e-12)
    poles = xr.Dataset(coords={"lat": [-90.0, 0.0], "lon": [0.0, 90.0]})
    equator = CONDITIONED.average(poles)["mean"]
    assert_allclose(equator, CONDITIONED.model.predict([[0.0, 0.0], [0.0, 90.0]]).mean.mean(), rtol=1e-9)


def test_exceedance_and_transforms() -> None:
    bands = xr.DataArray(np.repeat(["a", "b"], 3), {"latitude": GRID.latitude}, name="band")
    found = CONDITIONED.average(GRID, bands, exceed=[285, 289.5])
    assert_allclose(found["exceeds_289.5"], norm.sf(289.5, found["mean"], found["std"]), rtol=1e-9)
    assert found["exceeds_285"].attrs["units"] == "1"
    assert "cell_methods" not in found["exceeds_285"].attrs
    with pytest.raises(cagp.InputError, match="not how they go together"):
        CONDITIONED.recalibrated().average(GRID, bands, exceed=285)
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.6, 0.01)), mean=cagp.Constant(), noise_variance=1e-5)
    whole = prior.transformed("log").condition(CONDITIONED.model.X.numpy(), CONDITIONED.model.y.numpy())
    simulated = GRID.cagp.average(bands, whole, exceed=290.0, observed=True)
    assert_allclose(simulated["mean"], found["mean"], atol=2)
    assert "1,000 simulated fields" in simulated.attrs["cagp_status"]
    assert ((simulated["exceeds_290"] >= 0) & (simulated["exceeds_290"] <= 1)).all()


@pytest.mark.parametrize(
    ("by", "options", "words"),
    [
        ("country", {}, "no variable or coordinate 'country'"),
        ({"level": 3}, {}, "chooses nothing"),
        (xr.DataArray([True, False], dims="latitude"), {}, "does not have the coordinates"),
        (xr.DataArray(np.zeros((6, 2)), dims=("latitude", "time")), {}, "also varies along"),
        (xr.zeros_like(GRID.latitude).astype(bool), {}, "no cell"),
        (3, {}, "by must be"),
        (None, {"weights": "mass"}, "weights must be"),
        (None, {"weights": -GRID.longitude}, "not negative"),
        (None, {"level": 95}, "level"),
        (None, {"exceed": "warm"}, "exceed must be one threshold"),
        (None, {"exceed": [280.0, np.inf]}, "exceed must be one threshold, a finite number"),
    ],
)
def test_refused(by: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(cagp.InputError, match=words):
        CONDITIONED.average(GRID, by, **options)


@pytest.mark.parametrize(
    ("grid", "box", "words"),
    [
        (GRID.isel(latitude=slice(None, None, -1)), slice(10, 40), r"from 50.0 to -50.0, .* write slice\(40, 10\)"),
        (GRID, slice(40, 10), r"from -50.0 to 50.0, .* write slice\(10, 40\)"),
        (GRID, slice(41, 42), "the grid has no points along"),
    ],
)
def test_a_box_against_the_order_of_a_coordinate(grid: Any, box: slice, words: str) -> None:
    with pytest.raises(cagp.InputError, match=words):
        CONDITIONED.average(grid, {"latitude": box})
