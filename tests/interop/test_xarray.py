"""Gridded fields through xarray, against the same predictions made by hand with arrays."""

from __future__ import annotations

import dataclasses
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import cagp
from cagp.errors import InputError, InputTypeError
from cagp.fit_report import Names
from cagp.model import require_model
from cagp.story import Story
from random_examples import examples

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")

import cagp.interop.xarray as interop  # noqa: E402
from cagp.interop.xarray_conventions import Axis, copies  # noqa: E402

PRIOR = cagp.Prior(cagp.Geographic(cagp.Matern32(0.5, 4.0)), mean=280.0, noise_variance=0.05)
ATTRIBUTES = {
    "units": "K",
    "long_name": "2 metre temperature",
    "standard_name": "air_temperature",
    "cell_methods": "area: mean",
}


def temperature(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    return 280 + 3 * np.cos(np.deg2rad(lat)) * np.sin(np.deg2rad(lon)) + np.sin(np.deg2rad(2 * lat))


def field(names: tuple[str, str] = ("lat", "lon"), step: float = 20.0) -> Any:
    lat, lon = np.arange(-80.0, 81.0, step), np.arange(0.0, 360.0, 30.0)
    noise = 0.2 * np.random.default_rng(0).normal(size=(len(lat), len(lon)))
    return xr.DataArray(
        temperature(lat[:, None], lon) + noise, coords=dict(zip(names, (lat, lon), strict=True)), dims=names, name="t2m"
    ).assign_attrs(ATTRIBUTES)


CONDITIONED = interop.condition(field(), PRIOR, solver=cagp.Cholesky())


def grid(lat: Any = (-35.0, 5.0, 50.0), lon: Any = (15.0, 100.0, 200.0, 351.0)) -> Any:
    return xr.Dataset(coords={"lat": np.asarray(lat), "lon": np.asarray(lon)})


def by_hand(observed: Any, target: Any, solver: Any, prior: cagp.Prior = PRIOR) -> cagp.Posterior:
    """The route without xarray, for fields on (lat, lon)."""
    lat, lon = (a.ravel() for a in np.meshgrid(observed.lat, observed.lon, indexing="ij"))
    y = observed.values.ravel()
    seen = ~np.isnan(y)
    model = prior.condition(np.column_stack([lat, lon])[seen], y[seen], solver)
    points = np.column_stack([a.ravel() for a in np.meshgrid(target.lat, target.lon, indexing="ij")])
    return model.predict(points)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.GaussSeidel(3), cagp.NearestNeighbours(20)])
def test_same_as_by_hand(solver: Any) -> None:
    observed, target = field(), grid()
    result = observed.cagp.condition(PRIOR, solver=solver).predict(target, level=0.9)
    post = by_hand(observed, target, solver)
    assert result["mean"].dims == ("lat", "lon")
    np.testing.assert_allclose(result["mean"].values.ravel(), post.mean, rtol=1e-12)
    np.testing.assert_allclose(result["std"].values.ravel(), post.std, rtol=1e-10)
    lower, upper = post.interval(0.9)
    np.testing.assert_allclose(result["lower"].values.ravel(), lower, rtol=1e-12)
    np.testing.assert_allclose(result["upper"].values.ravel(), upper, rtol=1e-12)


def test_doors_are_the_same() -> None:
    observed, target = field(), grid()
    conditioned = interop.condition(observed, PRIOR)
    expected = conditioned.predict(target)
    for other in (
        target.cagp.predict(conditioned),
        target.lat.broadcast_like(target.lon).transpose("lat", "lon").cagp.predict(conditioned),
        interop.predict(conditioned, target),
        observed.to_dataset().cagp.condition("t2m", PRIOR).predict(target),
        interop.predict(conditioned.model, target),  # a model that knows nothing of xarray
    ):
        np.testing.assert_array_equal(expected["mean"], other["mean"])
        np.testing.assert_array_equal(expected["std"], other["std"])
    cagp.interop.register_xarray()
    assert cagp.interop.xarray is interop


def test_missing_values_are_left_out_and_counted() -> None:
    observed, target = field(), grid()
    observed.values[2, 3:6] = np.nan
    conditioned = interop.condition(observed, PRIOR, solver=cagp.Cholesky())
    result = conditioned.predict(target)
    assert conditioned.source.missing == 3
    assert result.attrs["cagp_observations_missing"] == 3
    assert result.attrs["cagp_observations"] == observed.size - 3
    np.testing.assert_allclose(result["mean"].values.ravel(), by_hand(observed, target, cagp.Cholesky()).mean)
    with pytest.raises(InputError, match="all 108 values of the field are NaN"):
        interop.condition(xr.full_like(observed, np.nan), PRIOR)


def test_observed_adds_the_noise() -> None:
    conditioned = interop.condition(field(), PRIOR)
    latent, new = conditioned.predict(grid()), conditioned.predict(grid(), observed=True)
    np.testing.assert_allclose(new["std"] ** 2, latent["std"] ** 2 + 0.05)
    assert new["std"].attrs["long_name"] == "posterior standard deviation of new observations of 2 metre temperature"
    twice = conditioned.predict(grid(), observed=True, noise_variance=0.1)
    np.testing.assert_allclose(twice["std"] ** 2, latent["std"] ** 2 + 0.1)


def test_longitude_conventions() -> None:
    """0…360 and −180…180 are the same places for Geographic; another kernel refuses the mixture."""
    observed = field()
    target = grid()
    west = target.assign_coords(lon=((target.lon + 180) % 360) - 180)
    conditioned = interop.condition(observed, PRIOR, solver=cagp.GaussSeidel(2))
    np.testing.assert_allclose(conditioned.predict(west)["mean"], conditioned.predict(target)["mean"], rtol=1e-10)
    turned = observed.assign_coords(lon=((observed.lon + 180) % 360) - 180)
    again = interop.condition(turned, PRIOR, solver=cagp.GaussSeidel(2))
    np.testing.assert_allclose(again.predict(target)["std"], conditioned.predict(target)["std"], rtol=1e-8)
    squared = cagp.Prior(cagp.kernels.Power(PRIOR.kernel, 2), mean=280.0, noise_variance=0.05)
    interop.condition(observed, squared).predict(west)

    flat = interop.condition(observed, cagp.Prior(cagp.Matern32(40.0, 4.0), mean=280.0))
    flat.predict(target)
    with pytest.raises(InputError, match="two conventions"):
        flat.predict(west)
    with pytest.raises(InputError, match="two conventions"):
        interop.condition(turned, flat.model.prior).predict(target)
    ocean = observed.assign_coords(lon=observed.lon + 50)
    interop.condition(ocean, flat.model.prior).predict(grid(lon=(60.0, 370.0)))
    for known, asked in ((ocean, grid(lon=(0.0, 5.0))), (observed, grid(lon=(350.0, 365.0)))):
        with pytest.raises(InputError, match=r"two conventions.*% 360"):
            interop.condition(known, flat.model.prior).predict(asked)


@examples(15)
@given(st.lists(st.booleans(), min_size=4, max_size=4))
def test_full_turns_do_not_matter(turn: list[bool]) -> None:
    target = grid(lon=(-95.0, -5.0, 10.0, 120.0))
    turned = target.assign_coords(lon=target.lon - 360 * np.sign(target.lon) * np.array(turn))
    first, second = CONDITIONED.predict(target), CONDITIONED.predict(turned)
    np.testing.assert_allclose(first["mean"], second["mean"], rtol=1e-9)
    np.testing.assert_allclose(first["std"], second["std"], rtol=1e-9)


def test_recognised_by_attributes_or_names() -> None:
    expected = interop.condition(field(), PRIOR).predict(grid())["mean"]
    for names in [("latitude", "longitude"), ("Latitude", "LON")]:
        other = interop.condition(field(names), PRIOR).predict(grid())
        np.testing.assert_array_equal(other["mean"], expected)
    strange = field(("phi", "lambda"))
    strange.phi.attrs["units"] = "degrees_north"
    strange["lambda"].attrs["standard_name"] = "longitude"
    np.testing.assert_array_equal(interop.condition(strange, PRIOR).predict(grid())["mean"], expected)


@pytest.mark.parametrize("names", [["lon", "lat"], ["Lat", "long"], ["east", "north"], None])
def test_columns_of_a_model_are_found_by_what_they_mean(names: list[str] | None) -> None:
    """In the order of the columns, whatever the grid calls them; the name of the observations is kept."""
    observed, east_first = field(), names is None or names[0] != "Lat"
    lat, lon = (a.ravel() for a in np.meshgrid(observed.lat, observed.lon, indexing="ij"))
    X = np.column_stack([lon, lat] if east_first else [lat, lon])
    kernel = PRIOR.kernel.on(1, 0) if east_first else PRIOR.kernel
    y = pd.Series(observed.values.ravel(), name=None if names is None else "temperature")
    prior = dataclasses.replace(PRIOR, kernel=kernel)
    model = prior.condition(X if names is None else pd.DataFrame(X, columns=names), y)
    expected = by_hand(observed, grid(), cagp.Cholesky())
    for called in [("lat", "lon"), ("latitude", "longitude"), ("phi", "lambda")]:
        target = grid().rename(dict(zip(("lat", "lon"), called, strict=True)))
        target[called[0]].attrs["units"] = "degrees_north"
        target[called[1]].attrs["standard_name"] = "longitude"
        found = target.cagp.predict(model)
        np.testing.assert_allclose(found["mean"].transpose(*called).values.ravel(), expected.mean, rtol=1e-6)
    assert found.attrs["title"].endswith("of field" if names is None else "of temperature")
    assert found["mean"].attrs["long_name"] == f"posterior mean of {'field' if names is None else 'temperature'}"
    with pytest.raises(InputError, match="name coords in the order of the columns"):
        target.cagp.predict(model, coords=called if east_first else called[::-1])


@pytest.mark.parametrize("names", [("x", "y"), ("lon_deg", "lat_deg"), ("height", "lat")])
def test_latitude_and_longitude_are_no_columns_of_other_names(names: tuple[str, str]) -> None:
    frame = pytest.importorskip("pandas").DataFrame(np.random.default_rng(0).random((9, 2)), columns=names)
    model = cagp.Prior(cagp.Matern32(0.5), noise_variance=0.01).condition(frame, np.arange(9.0))
    with pytest.raises(InputError, match=rf"no coordinate '{names[0]}', as a column of the model .* coords=\(...\)"):
        grid().cagp.predict(model)
    found = grid().cagp.predict(model, coords=("lon", "lat"))["mean"].transpose("lat", "lon")
    north, east = np.meshgrid(grid().lat, grid().lon, indexing="ij")
    np.testing.assert_allclose(found.values.ravel(), model.predict(np.c_[east.ravel(), north.ravel()]).mean)


def test_ambiguous_coordinates_are_refused() -> None:
    observed = field()
    with pytest.raises(InputError, match="no single latitude was found: there are"):
        interop.condition(observed.rename(lat="y", lon="x"), PRIOR)
    with pytest.raises(InputError, match=r"\['lat', 'latitude'\] all look like one"):
        interop.condition(observed.assign_coords(latitude=observed.lat * 1.0), PRIOR)
    for attributes in ({"units": "degrees_east"}, {"units": "radians"}, {"standard_name": "longitude"}):
        wrong = observed.copy()
        wrong.lat.attrs.update(attributes)
        with pytest.raises(InputError, match="Correct its attributes"):
            interop.condition(wrong, PRIOR)
    with pytest.raises(InputError, match="no coordinate 'height'"):
        interop.condition(observed, PRIOR, coords=("lat", "lon", "height"))
    with pytest.raises(InputError, match="assign_coords"):
        interop.condition(observed.drop_vars("lon"), PRIOR, coords=("lat", "lon"))
    with pytest.raises(InputError, match="distinct names"):
        interop.condition(observed, PRIOR, coords="lat")
    with pytest.raises(InputError, match=r"Geographic needs \(latitude, longitude\)"):
        interop.condition(observed, PRIOR, coords=("lon", "lat"))
    with pytest.raises(InputError, match="no single longitude was found"):
        interop.condition(observed, PRIOR).predict(grid().rename(lon="x"))


def test_further_dimensions() -> None:
    """A dimension of size one is dropped, a longer one is refused or becomes a coordinate."""
    times = np.array(["2024-01-01", "2024-01-01T12", "2024-01-03"], dtype="datetime64[ns]")
    series = xr.concat([field() + i for i in range(3)], dim=xr.Variable("time", times)).assign_attrs(ATTRIBUTES)
    one = interop.condition(series.isel(time=[1]), PRIOR).predict(grid())
    np.testing.assert_array_equal(one["mean"], interop.condition(field() + 1, PRIOR).predict(grid())["mean"])
    with pytest.raises(InputError, match=r"also varies along \['time'\].*isel\(time=0\)"):
        interop.condition(series, PRIOR)

    kernel = cagp.Geographic(cagp.Matern32(0.5, 4.0)).on(1, 2) * cagp.Matern12(36.0).on(0)
    prior = cagp.Prior(kernel, mean=281.0, noise_variance=0.05)
    conditioned = interop.condition(series, prior, coords=("time", "lat", "lon"), time_unit="h")
    target = grid().assign_coords(time=np.datetime64("2024-01-02T06", "ns"))
    result = conditioned.predict(target)
    t, lat, lon = (a.ravel() for a in np.meshgrid([0.0, 12.0, 48.0], series.lat, series.lon, indexing="ij"))
    model = prior.condition(np.column_stack([t, lat, lon]), series.values.ravel())
    at = np.column_stack([a.ravel() for a in np.meshgrid([30.0], target.lat, target.lon, indexing="ij")])
    np.testing.assert_allclose(result["mean"].values.ravel(), model.predict(at).mean, rtol=1e-10)
    assert result["time"].ndim == 0
    several = conditioned.predict(target.expand_dims(time=times))
    assert several["mean"].sizes == {"time": 3, "lat": 3, "lon": 4}
    with pytest.raises(InputError, match="no coordinate 'time'"):
        conditioned.predict(grid())


def test_coordinates_along_dimensions() -> None:
    """Stations (lat and lon along one dimension) and curvilinear grids (both along two)."""
    observed = field()
    stations = observed.stack(station=("lat", "lon")).reset_index("station")
    conditioned = interop.condition(stations, PRIOR)
    expected = interop.condition(observed, PRIOR).predict(grid())
    np.testing.assert_allclose(conditioned.predict(grid())["mean"], expected["mean"], rtol=1e-12)
    at_stations = conditioned.predict(grid().stack(place=("lat", "lon")))
    assert at_stations["mean"].dims == ("place",)
    np.testing.assert_array_equal(at_stations.unstack()["mean"], conditioned.predict(grid())["mean"])

    lat, lon = xr.broadcast(grid().lat, grid().lon)
    curved = xr.Dataset(coords={"lat": (("j", "i"), lat.values), "lon": (("j", "i"), lon.values)})
    assert conditioned.predict(curved)["mean"].dims == ("j", "i")
    np.testing.assert_array_equal(
        conditioned.predict(curved)["mean"].values, conditioned.predict(grid())["mean"].values
    )
    with pytest.raises(InputError, match="1 values that are missing"):
        conditioned.predict(curved.assign_coords(lat=curved.lat.where(curved.lat + curved.lon != -20.0)))


def test_coordinates_whose_dimensions_are_in_another_order() -> None:
    """A latitude along (i, j) and a longitude along (j, i) belong together cell by cell, not number by number."""
    rng = np.random.default_rng(3)
    lat, lon = rng.uniform(-60, 60, (3, 4)), rng.uniform(0, 350, (3, 4))
    values = {"t2m": (("j", "i"), temperature(lat, lon))}
    plain = xr.Dataset(values, coords={"lat": (("j", "i"), lat), "lon": (("j", "i"), lon)})
    turned = xr.Dataset(values, coords={"lat": (("i", "j"), lat.T), "lon": (("j", "i"), lon)})
    post = CONDITIONED.model.predict(np.column_stack([lat.ravel(), lon.ravel()]))
    lazily = turned.chunk({"j": 2, "i": 3})
    with dask.config.set(scheduler=refuse):
        lazy = CONDITIONED.predict(lazily)
    for found in (CONDITIONED.predict(turned), lazy, CONDITIONED.predict(turned, chunks={"i": 3})):
        assert found["mean"].dims == ("j", "i")
        np.testing.assert_allclose(found["mean"].values.ravel(), post.mean, rtol=1e-12)
        np.testing.assert_allclose(found["std"].values.ravel(), post.std, rtol=1e-10)
        np.testing.assert_array_equal(found["lat"].transpose("j", "i"), lat)
    for other in (turned, lazily):
        xr.testing.assert_allclose(CONDITIONED.simulate(other, 2).variable, CONDITIONED.simulate(plain, 2).variable)
        by = plain["lat"].drop_vars(["lat", "lon"]) > 0
        xr.testing.assert_allclose(CONDITIONED.average(other, by), CONDITIONED.average(plain, by))
        np.testing.assert_array_equal(CONDITIONED.points_of(other), CONDITIONED.points_of(plain))
        seen = interop.condition(other["t2m"], PRIOR).model.recipe.X
        np.testing.assert_array_equal(seen, np.column_stack([lat.ravel(), lon.ravel()]))


def test_projected_coordinates() -> None:
    rng = np.random.default_rng(1)
    plane = xr.DataArray(
        rng.normal(size=(6, 7)), coords={"y": np.arange(6) * 1e5, "x": np.arange(7) * 1e5}, dims=("y", "x")
    )
    prior = cagp.Prior(cagp.Matern32(2e5))
    target = plane.isel(x=[1, 2], y=[0]).assign_coords(spatial_ref=0)
    target.attrs["grid_mapping"] = "spatial_ref"
    result = interop.condition(plane, prior, coords=("y", "x")).predict(target)
    assert result["std"].attrs == {"long_name": "posterior standard deviation of field", "grid_mapping": "spatial_ref"}
    X = np.column_stack([a.ravel() for a in np.meshgrid(plane.y, plane.x, indexing="ij")])
    post = prior.condition(X, plane.values.ravel()).predict(np.array([[0.0, 1e5], [0.0, 2e5]]))
    np.testing.assert_allclose(result["mean"].values.ravel(), post.mean, rtol=1e-12)


def test_noise_per_value() -> None:
    observed = field()
    observed.values[0, 0] = np.nan
    noise = xr.ones_like(observed).where(observed.lat > 0, 0.1).transpose("lon", "lat")
    conditioned = interop.condition(observed, PRIOR, noise_variance=noise)
    seen = ~np.isnan(observed.values.ravel())
    np.testing.assert_array_equal(
        conditioned.model.prior.noise_variance, noise.transpose("lat", "lon").values.ravel()[seen]
    )
    with pytest.raises(InputError, match="says nothing about new observations"):
        conditioned.predict(grid(), observed=True)
    with pytest.raises(InputError, match="does not have the coordinates"):
        interop.condition(observed, PRIOR, noise_variance=noise.assign_coords(lat=noise.lat + 1))
    with pytest.raises(InputError, match=r"noise_variance has shape \(2,\)"):
        interop.condition(observed, PRIOR, noise_variance=[1.0, 2.0])


def test_copies_at_poles_and_seam() -> None:
    """One value written under many longitudes is one observation; different values at a pole are not copies."""
    lat, lon = np.array([-90.0, 0.0, 90.0]), np.array([-180.0, -90.0, 0.0, 90.0, 180.0])
    values = np.arange(15.0).reshape(3, 5)
    values[0] = 7.0  # one value at the south pole
    values[1, 4] = values[1, 0]  # the seam, repeated
    observed = xr.DataArray(values, coords={"lat": lat, "lon": lon}, dims=("lat", "lon"))
    conditioned = interop.condition(observed, PRIOR)
    assert conditioned.source.copies == 4 + 1
    assert conditioned.predict(grid()).attrs["cagp_observations_copies"] == 5
    assert len(conditioned.model.y) == 10
    repeated = xr.concat([observed.isel(lat=[1])] * 2, dim="lat")  # measured twice at the same place: both count
    assert interop.condition(repeated, PRIOR).source.copies == 2
    axes = (Axis("x", "other"), Axis("y", "other"))
    assert not copies(np.zeros((4, 2)), np.zeros(4), axes).any()


def test_attributes_follow_cf() -> None:
    result = interop.condition(field(), PRIOR, solver=cagp.GaussSeidel(2)).predict(grid(), level=0.5)
    assert result["mean"].attrs == {
        "long_name": "posterior mean of 2 metre temperature",
        "units": "K",
        "standard_name": "air_temperature",
        "ancillary_variables": "std lower upper",
        "cell_methods": "area: mean",
    }
    assert result["std"].attrs == {
        "long_name": "posterior standard deviation of 2 metre temperature",
        "units": "K",
        "standard_name": "air_temperature standard_error",
        "units_metadata": "temperature: difference",
    }
    assert result["lower"].attrs["probability"] == 0.5
    assert result["lat"].attrs == {"units": "degrees_north", "standard_name": "latitude"}
    assert result.attrs["Conventions"] == "CF-1.11"
    assert result.attrs["cagp_version"] == cagp.__version__
    assert result.attrs["cagp_prior"] == repr(PRIOR)
    assert result.attrs["cagp_solver"] == repr(cagp.GaussSeidel(2))
    assert result.attrs["cagp_calibrated"] == "true"
    assert "G: dense" in result.attrs["cagp_status"]
    assert "predicted from 108 observations" in result.attrs["history"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [("unknown", None), ("air temperature", None), ("air_temperature standard_error", None), ("sst", "sst")],
)
def test_only_plain_standard_names_are_kept(given: str, kept: str | None) -> None:
    observed = field().assign_attrs(standard_name=given, cell_methods="time: mean (interval: 1 h)")
    result = interop.condition(observed, PRIOR).predict(grid())
    assert result["mean"].attrs.get("standard_name") == kept
    assert "cell_methods" not in result["mean"].attrs  # there is no time any more


def test_nothing_given_is_changed() -> None:
    observed, target = field(), grid()
    before = observed.copy(deep=True), target.copy(deep=True)
    interop.condition(observed, PRIOR).predict(target)
    xr.testing.assert_identical(observed, before[0])
    xr.testing.assert_identical(target, before[1])


@pytest.mark.parametrize("lazily", [False, True])
def test_netcdf_round_trip(tmp_path: Path, lazily: bool) -> None:
    pytest.importorskip("h5netcdf")
    target = grid().assign_coords(time=np.datetime64("2024-01-02", "ns"))
    chunks = {"lat": 2} if lazily else None
    result = interop.condition(field(), PRIOR).predict(target, level=0.9, chunks=chunks)
    result.to_netcdf(tmp_path / "prediction.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "prediction.nc", engine="h5netcdf") as read:
        xr.testing.assert_identical(read.load(), result.compute())


def refuse(*given: Any, **options: Any) -> None:
    raise AssertionError("something was computed")


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.GaussSeidel(2), cagp.NearestNeighbours(10)])
def test_dask_grids_are_predicted_lazily(solver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = grid(np.linspace(-70, 70, 11), np.linspace(0, 330, 13))
    conditioned = interop.condition(field(), PRIOR, solver=solver)
    eager = conditioned.predict(target, level=0.9, observed=True, exceed=(280.0, 282.5))
    expected = norm.sf(282.5, eager["mean"], eager["std"])
    np.testing.assert_allclose(eager["exceeds_282.5"], expected, rtol=1e-6)
    about = {"long_name": "probability of more than 280 K: new observations of 2 metre temperature", "units": "1"}
    assert eager["exceeds_280"].attrs == about
    backed = target.assign(mask=(("time", "lat", "lon"), np.zeros((2, 11, 13)))).chunk({"lat": 4, "lon": 6})
    with monkeypatch.context() as patch, dask.config.set(scheduler=refuse):
        patch.setattr(cagp.Model, "predict", refuse)
        lazy = backed.cagp.predict(conditioned, level=0.9, observed=True, exceed=(280.0, 282.5))
        asked = conditioned.predict(target, level=0.9, observed=True, exceed=[280, 282.5], chunks={"lat": 5})
    assert lazy["mean"].chunksizes == {"lat": (4, 4, 3), "lon": (6, 6, 1)}
    assert asked["std"].chunksizes == {"lat": (5, 5, 1), "lon": (13,)}
    assert "block by block" in lazy.attrs["cagp_status"]
    for other in (lazy, asked):
        for name in eager.data_vars:
            np.testing.assert_allclose(other[name], eager[name], rtol=1e-9)
            assert other[name].attrs == eager[name].attrs


def test_only_what_is_asked_for_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    conditioned = interop.condition(field(), PRIOR)
    lazy = conditioned.predict(grid(np.linspace(-70, 70, 10)), chunks={"lat": 2})
    sizes = []
    predict = cagp.Model.predict
    monkeypatch.setattr(cagp.Model, "predict", lambda self, X, **o: (sizes.append(len(X)), predict(self, X, **o))[1])
    lazy.isel(lat=3).compute()
    assert sizes == [8]
    lazy.compute()
    assert sizes == [8] * 6  # mean and std of a block together


def test_blocks_are_predicted_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each prediction may use the whole memory budget, so two threads must not predict at once."""
    lazy = interop.condition(field(), PRIOR).predict(grid(np.linspace(-70, 70, 8)), chunks={"lat": 1})
    predict, inside, most = cagp.Model.predict, [0], [0]

    def counted(self: cagp.Model, X: Any, **options: Any) -> cagp.Posterior:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return predict(self, X, **options)

    monkeypatch.setattr(cagp.Model, "predict", counted)
    with dask.config.set(scheduler="threads", num_workers=4):
        lazy.compute()
    assert most == [1]


def test_an_interrupted_block_is_not_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = interop.condition(field(), PRIOR).predict(grid(), chunks={"lat": 1})
    predict = cagp.Model.predict

    def interrupted(self: cagp.Model, X: Any, **options: Any) -> cagp.Posterior:
        post = predict(self, X, **options)
        post.status = dataclasses.replace(post.status, reason="interrupted")
        return post

    monkeypatch.setattr(cagp.Model, "predict", interrupted)
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        lazy.compute()


def test_lazy_coordinates_stay_lazy() -> None:
    lat, lon = xr.broadcast(grid().lat, grid().lon)
    curved = xr.Dataset(coords={"lat": (("j", "i"), lat.values), "lon": (("j", "i"), lon.values)}).chunk({"j": 1})
    conditioned = interop.condition(field(), PRIOR)
    with dask.config.set(scheduler=refuse):
        lazy = conditioned.predict(curved)
    assert lazy["mean"].chunksizes["j"] == (1, 1, 1)
    np.testing.assert_allclose(lazy["mean"].values, conditioned.predict(grid())["mean"].values, rtol=1e-12)


def test_lazy_prediction_can_be_pickled() -> None:
    lazy = interop.condition(field(), PRIOR).predict(grid(), chunks={"lat": 1})
    np.testing.assert_allclose(pickle.loads(pickle.dumps(lazy))["mean"].values, lazy["mean"].values, rtol=1e-12)


def test_default_prior_is_fitted() -> None:
    conditioned = interop.condition(field())
    kernel = conditioned.model.prior.kernel
    assert {pair for pair in cagp.kernels.geographic_columns(kernel, (0, 1))} == {(0, 1)}
    assert "Chosen" in conditioned.model.story
    assert abs(conditioned.predict(grid())["mean"] - temperature(grid().lat, grid().lon)).max() < 0.5
    held = field().cagp.fit(noise_variance=0.04, kernel="matern32", uncertainty=False)
    assert held.model.prior.noise_variance == 0.04
    assert "cells of the field have no value. To fill them in" not in held.model.story.replace("\n  ", " ")
    holed = field().copy()
    holed[2:4, 2:5] = np.nan
    told = holed.cagp.fit(noise_variance=0.04, kernel="matern32", uncertainty=False).model.story.replace("\n  ", " ")
    assert "6 cells of the field have no value. To fill them in, give the part of the grid" in told
    with pytest.raises(InputError, match="nothing to condition"):
        interop.condition(field(), fit=False)
    with pytest.raises(InputError, match="constant"):
        interop.condition(xr.ones_like(field()))


def test_default_prior_with_time() -> None:
    times = np.array(["2024-01-01", "2024-01-02", "2024-01-04"], dtype="datetime64[ns]")
    rng, each = np.random.default_rng(3), field(step=40.0)
    noisy = [each + np.sin(i) * np.cos(np.deg2rad(each.lon)) + 0.3 * rng.normal(size=each.shape) for i in range(3)]
    series = xr.concat(noisy, dim=xr.Variable("time", times))
    conditioned = interop.fit(series, coords=("lat", "lon", "time"), kernel="matern32", uncertainty=False)
    place, time = conditioned.model.prior.kernel.kernels
    assert isinstance(place.kernel, cagp.Geographic)
    assert time.kernel.variance == 1.0


def test_given_prior_can_be_fitted() -> None:
    conditioned = interop.condition(field(), PRIOR, fit={"n_restarts": 0, "fix": "variance"})
    assert conditioned.model.prior.kernel.kernel.variance == 4.0
    assert conditioned.model.prior.kernel.kernel.lengthscale != 0.5


def test_refused() -> None:
    conditioned = interop.condition(field(), PRIOR)
    with pytest.raises(InputTypeError, match="choose a variable"):
        interop.condition(field().to_dataset(), PRIOR)
    with pytest.raises(InputTypeError, match="not a real number"):
        interop.condition(field() > 0, PRIOR)
    with pytest.raises(InputTypeError, match=r"prior must be a cagp\.Prior"):
        interop.condition(field(), PRIOR.kernel)
    with pytest.raises(InputError, match="no variable 'x'"):
        field().to_dataset().cagp.condition("x")
    for call in (field().to_dataset().cagp.fit, field().to_dataset().cagp.condition):
        with pytest.raises(InputError, match=r"variable says which one .* it has \['t2m'\]"):
            call()
    with pytest.raises(InputError, match="level must be between"):
        conditioned.predict(grid(), level=95)
    with pytest.raises(InputTypeError, match="grid must be an xarray"):
        conditioned.predict({"lat": [1.0]})
    with pytest.raises(InputError, match="say observed=True"):
        conditioned.predict(grid(), noise_variance=1.0)
    with pytest.raises(InputError, match="no points along"):
        conditioned.predict(grid(lat=[]))
    with pytest.raises(InputError, match=r"coordinates called \['mean'\]"):
        conditioned.predict(grid().assign_coords(mean=1.0))
    with pytest.raises(InputError, match="chunks name"):
        conditioned.predict(grid(), chunks={"time": 1})
    with pytest.raises(InputError, match="coords were chosen"):
        interop.predict(conditioned, grid(), coords=("lat", "lon"))
    with pytest.raises(InputTypeError, match="conditioned field or a cagp"):
        interop.predict(PRIOR, grid())
    calendar = (
        xr.date_range("2000-01-01", periods=3, calendar="noleap", use_cftime=True) if has_cftime() else list("abc")
    )
    with pytest.raises(InputTypeError, match="convert_calendar"):
        interop.condition(xr.DataArray(np.arange(3.0), coords={"time": calendar}, dims="time"), PRIOR, coords=("time",))


def has_cftime() -> bool:
    try:
        import cftime  # noqa: F401
    except ImportError:
        return False
    return True


def test_real_temperatures(data_folder: Path) -> None:
    """ERA5: a coarse grid of the real field, its poles once, predicted between its points within its error bars."""
    pytest.importorskip("h5netcdf")
    with xr.open_dataset(data_folder / "era5_t2m_2024-01-01T00.nc", engine="h5netcdf") as file:
        t2m = file["t2m"].load()
    coarse = t2m.isel(latitude=slice(0, None, 30), longitude=slice(0, None, 30))
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.174, 123.0)), mean=cagp.Constant(), noise_variance=1.37)
    conditioned = coarse.cagp.condition(prior, solver=cagp.NearestNeighbours(100))
    assert conditioned.source.copies == 2 * 47
    between = t2m.isel(latitude=slice(45, 700, 90), longitude=slice(15, None, 90)).squeeze(drop=True)
    result = between.cagp.predict(conditioned, observed=True)
    z = (between - result["mean"]) / result["std"]
    assert 0.4 < float(z.std()) < 2.0
    assert result["std"].attrs["units"] == "K"


def test_a_folder_tells_what_the_field_told(tmp_path: Path) -> None:
    """What a field said of itself is in predictions of its folder, and nothing is written that nobody knows."""
    observed = field()
    observed.values[2, 3:6] = np.nan
    conditioned = interop.condition(observed, PRIOR, solver=cagp.Cholesky())
    conditioned.save(tmp_path / "model")
    loaded = cagp.load(tmp_path / "model")
    loaded.save(tmp_path / "again")
    told = conditioned.predict(grid())
    for model in (loaded, cagp.load(tmp_path / "again"), loaded.replace(margins=None)):
        found = grid().cagp.predict(model)
        for name in ("title", "cagp_observations_missing", "cagp_observations_copies"):
            assert found.attrs[name] == told.attrs[name]
        assert found["mean"].attrs == told["mean"].attrs
    lat, lon = (each.ravel() for each in np.meshgrid(observed.lat, observed.lon, indexing="ij"))
    X, seen = np.column_stack([lat, lon]), observed.values.ravel()
    by_hand = PRIOR.condition(X[~np.isnan(seen)], seen[~np.isnan(seen)])
    unknown = interop.predict(by_hand, grid(), coords=("lat", "lon")).attrs
    assert not {"cagp_observations_missing", "cagp_observations_copies"} & set(unknown)


def test_labels_of_a_field_and_of_its_folder(tmp_path: Path) -> None:
    """Maps and reports of the model of a field have its name and unit, and so have those of its folder."""
    conditioned = interop.condition(field(), PRIOR, solver=cagp.Cholesky())
    conditioned.save(tmp_path / "model")
    for model in (conditioned.model, cagp.load(tmp_path / "model")):
        names = Names().filled_in(model)
        assert (names.target_label, names.features) == ("t2m [K]", ("lat", "lon"))
        assert Names(target="air").filled_in(model).target_label == "air"


def test_a_field_tells_its_story_and_has_a_map(tmp_path: Path) -> None:
    conditioned = interop.condition(field(), PRIOR)
    assert str(conditioned) == repr(conditioned)
    assert repr(conditioned).startswith("ConditionedField(t2m on lat, lon, Model(")
    told = Story("What was chosen\nNothing.", ())
    chosen = dataclasses.replace(conditioned, model=conditioned.model.replace(story=told))
    assert str(chosen) == chosen.story == chosen.model.story == "What was chosen\nNothing."
    assert "<title>cagp: map of t2m" in conditioned.map(tmp_path / "map.html", cells=100, progress=False).read_text()
    with pytest.raises(InputTypeError, match=r"got ConditionedField; its model is one: pass conditioned\.model"):
        require_model(conditioned)


@pytest.fixture(scope="module")
def hilly() -> tuple[cagp.Model, Any]:
    """A model with a covariate, and a grid that has it as a variable, missing over the sea."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((60, 3)), columns=["x", "y", "elevation"])
    values = np.sin(4 * X["x"]) + X["elevation"] + 0.1 * rng.normal(size=60)
    quick: dict[str, Any] = {"kernel": "rbf", "mean": "constant", "uncertainty": False, "recalibrate": False}
    model = cagp.fit(X, values, **quick, varying=False, transform=None, progress=False)
    heights = rng.random((4, 5))
    heights[0, 1] = heights[3] = np.nan
    coords = {"y": np.linspace(0, 1, 4), "x": np.linspace(0, 1, 5)}
    return model, xr.Dataset({"elevation": (("y", "x"), heights)}, coords=coords)


def test_cells_without_a_covariate_are_empty(hilly: tuple[cagp.Model, Any]) -> None:
    model, dataset = hilly
    with pytest.raises(InputError, match=r"no coordinate 'elevation'.*grid\.set_coords\('elevation'\) makes"):
        interop.predict(model, dataset)
    with pytest.raises(InputError, match=r"grid\.assign_coords\(elevation=grid\) makes"):
        interop.predict(model, dataset["elevation"])
    where = dataset.set_coords("elevation")
    found = interop.predict(model, where, level=0.9)
    there = where["elevation"].notnull()
    y, x = np.meshgrid(where["y"], where["x"], indexing="ij")
    X = np.stack([x, y, where["elevation"].values], axis=-1)[there.values]
    direct = model.predict(pd.DataFrame(X, columns=["x", "y", "elevation"]))
    assert found["mean"].dims == ("y", "x")
    for name, values in (("mean", direct.mean), ("std", direct.std), ("upper", direct.interval(0.9)[1])):
        np.testing.assert_allclose(found[name].values[there.values], values, rtol=1e-12)
        np.testing.assert_array_equal(found[name].isnull(), ~there)
    lazy = interop.predict(model, where, chunks={"y": 1})  # the last block has nothing
    np.testing.assert_allclose(lazy["mean"], found["mean"], rtol=1e-9)
    drawn = interop.simulate(model, where, 2)
    np.testing.assert_array_equal(drawn.isnull().all("realisation"), ~there)
    with pytest.raises(InputError, match=r"have no 'elevation'; .*by=grid\['elevation'\]\.notnull\(\)"):
        interop.average(model, where)
    mean = interop.average(model, where, where["elevation"].notnull())
    np.testing.assert_allclose(mean["mean"], direct.mean.mean(), rtol=1e-9)
    with pytest.raises(InputError, match="no cell of the grid has all coordinates"):
        interop.predict(model, where.isel(y=[3]))
