"""Maps in files: the numbers of a prediction, read back by GDAL, as QGIS does, and xarray; masks, rasters, kills."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyproj
import pytest
import rasterio
import rasterio.transform
import shapely
import torch
import xarray as xr
from packaging.version import parse

import cagp
import cagp.estimator
from cagp.errors import InputError, InputTypeError
from cagp.interop import register_xarray
from cagp.maps import MapOfModel
from cagp.maps.area import Area
from cagp.reports.maps import Map
from cagp.saving import About
from cagp.support.pieces import Pieces
from maps.places import DEGREES, RD, globe_model, plane_model, stations

ABOUT = About(features=("x", "y"), target="zinc", units={"zinc": "mg/kg"}, notes={"target long_name": "zinc in soil"})
BANDS = ("mean", "std", "lower", "upper")


def cells_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The centres of a raster's cells by rasterio, eastings and northings, (rows, columns) each."""
    with rasterio.open(path) as file:
        rows, columns = np.mgrid[: file.height, : file.width]
        xs, ys = rasterio.transform.xy(file.transform, rows.ravel(), columns.ravel())
        return np.reshape(xs, file.shape), np.reshape(ys, file.shape)


def expected(model: cagp.Model, xs: np.ndarray, ys: np.ndarray) -> list[np.ndarray]:
    """The bands at centres, of observations."""
    found = model.predict(np.c_[xs.ravel(), ys.ravel()]).observed()
    return [np.reshape(each, xs.shape) for each in (found.mean, found.std, *found.interval(0.9))]


def test_a_geotiff_read_by_gdal(tmp_path: Path) -> None:
    model, out = plane_model(), tmp_path / "zinc.tif"
    written = cagp.write_map(model, out, "0.1km", observed=True, level=0.9, exceed=[5, 6], about=ABOUT)
    assert written == out
    xs, ys = cells_of(out)
    with rasterio.open(out) as file:
        assert file.descriptions == (*BANDS, "exceeds_5", "exceeds_6")
        assert file.units == ("mg/kg",) * 4 + ("1", "1")
        assert file.crs.to_epsg() == 28992
        assert np.isnan(file.nodata)
        assert file.block_shapes == [(256, 256)] * 6
        assert file.compression.name == "deflate"
        assert file.res == (100.0, 100.0)
        np.testing.assert_array_equal(np.mod([file.bounds.left, file.bounds.top], 100), 0)
        data = stations().total_bounds
        assert file.bounds.left <= data[0] < file.bounds.left + 100
        assert file.bounds.top - 100 < data[3] <= file.bounds.top
        tags = file.tags(1)
        assert tags["long_name"] == "posterior mean of new observations of zinc in soil"
        assert file.tags()["cagp_interval"] == "lower and upper hold 90%"
        for found, wanted in zip(file.read(), expected(model, xs, ys), strict=False):
            np.testing.assert_allclose(found, wanted, rtol=1e-11)
        np.testing.assert_allclose(
            file.read(5).ravel(), model.predict(np.c_[xs.ravel(), ys.ravel()]).observed().exceedance(5.0), rtol=1e-11
        )
    assert [each.name for each in tmp_path.iterdir()] == ["zinc.tif"]


@pytest.mark.parametrize("make", [plane_model, globe_model])
def test_netcdf_and_zarr_say_the_same(tmp_path: Path, make: Any) -> None:
    register_xarray()
    model, side = make(), 50.0 if make is plane_model else 0.001
    north, east = ("y", "x") if make is plane_model else ("latitude", "longitude")
    about = None if make is globe_model else ABOUT
    for ending in ("tif", "nc", "zarr"):
        cagp.write_map(model, tmp_path / f"map.{ending}", side, about=about)
    crs = RD if make is plane_model else DEGREES
    with rasterio.open(tmp_path / "map.tif") as file:
        bands = file.read()
    for name, engine in (("map.nc", "h5netcdf"), ("map.zarr", "zarr")):
        with xr.open_dataset(tmp_path / name, engine=engine, decode_coords="all") as found:
            assert found["mean"].dims == (north, east)
            assert found[east].attrs["axis"] == "X"
            for band, each in zip(bands, BANDS, strict=True):
                np.testing.assert_array_equal(found[each], band)
            assert rasterio.crs.CRS.from_wkt(found["spatial_ref"].attrs["crs_wkt"]) == rasterio.crs.CRS.from_string(crs)
            assert found["mean"].encoding["grid_mapping"] == "spatial_ref"
            assert found["lower"].attrs["probability"] == 0.95
            assert found.attrs["Conventions"] == "CF-1.11"
            if about:
                assert found["std"].attrs["units"] == "mg/kg"
                assert found["x"].attrs["units"] == "m"
                assert found["y"].attrs["standard_name"] == "projection_y_coordinate"
                # the same coordinates through the door of xarray
            again = found.cagp.predict(model, level=0.95)
            np.testing.assert_allclose(again["upper"], found["upper"], rtol=1e-12)
            assert again["mean"].attrs["grid_mapping"] == "spatial_ref"
    # as GDAL, and with it QGIS, sees them
    old = parse(rasterio.__gdal_version__) < parse("3.10")  # which finds no coordinates in a Zarr store
    for source in (f"netcdf:{tmp_path}/map.nc:std", f'ZARR:"{tmp_path}/map.zarr":/std')[: 1 if old else 2]:
        with rasterio.open(source) as file:
            np.testing.assert_array_equal(file.read(1), bands[1])
            assert file.crs == rasterio.crs.CRS.from_string(crs)
            with rasterio.open(tmp_path / "map.tif") as other:
                np.testing.assert_allclose(file.transform, other.transform, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_cells_outside_of_a_mask_have_no_data_for_gdal_and_xarray(tmp_path: Path, ending: str) -> None:
    mask = gpd.GeoSeries([shapely.Point(180_000, 331_000).buffer(700)], crs=RD)
    for each in ("tif", ending):
        cagp.write_map(plane_model(), tmp_path / f"map.{each}", 50, mask=mask)
    with rasterio.open(tmp_path / "map.tif") as file:
        there, std = file.read_masks(2) > 0, file.read(2)
    assert 0 < there.sum() < there.size
    engine = {"nc": "h5netcdf", "zarr": "zarr"}[ending]
    with xr.open_dataset(tmp_path / f"map.{ending}", engine=engine) as found:
        np.testing.assert_array_equal(found["std"], std)
        assert np.isnan(found["std"].encoding["_FillValue"])
    if ending == "zarr" and parse(rasterio.__gdal_version__) < parse("3.10"):
        return  # as above
    named = {"nc": f"netcdf:{tmp_path}/map.nc:std", "zarr": f'ZARR:"{tmp_path}/map.zarr":/std'}[ending]
    with rasterio.open(named) as file:
        assert np.isnan(file.nodata)
        np.testing.assert_array_equal(file.read_masks(1) > 0, there)


def test_degrees_are_predicted_on_the_globe(tmp_path: Path) -> None:
    model = globe_model()
    cagp.write_map(model, tmp_path / "map.tif", 0.01)
    xs, ys = cells_of(tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        np.testing.assert_allclose(file.read(1).ravel(), model.predict(np.c_[ys.ravel(), xs.ravel()]).mean, rtol=1e-11)


def test_a_whole_globe_has_no_cell_twice(tmp_path: Path) -> None:
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.5, 1.0)), noise_variance=0.01)
    points = np.array([[-89.9, -179.9], [89.9, 179.9], [0.0, 0.0]])
    cagp.write_map(prior.condition(points, [0.0, 1.0, 2.0]), tmp_path / "map.tif", 7)
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.width * 7 <= 360
        assert file.bounds.top <= 90
        assert file.bounds.bottom >= -90
        assert file.crs.to_epsg() == 4326


def test_data_across_the_date_line_are_one_map(tmp_path: Path) -> None:
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.5, 1.0)), noise_variance=0.01)
    points = np.array([[-17.0, 177.0], [-18.0, -177.0], [-19.0, 180.0]])
    model = prior.condition(points, [0.0, 1.0, 2.0])
    cagp.write_map(model, tmp_path / "map.tif", 1)
    xs, ys = cells_of(tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert (file.bounds.left, file.bounds.right) == (177.0, 183.0)
        np.testing.assert_allclose(file.read(1).ravel(), model.predict(np.c_[ys.ravel(), xs.ravel() % 360]).mean)
    place = Map(1, 0, geographic=True)
    assert place.ends(points) == [(177.0, 183.0), (-19.0, -17.0)]
    np.testing.assert_array_equal(place.places(points, place.ends(points))[0], [177.0, 183.0, 180.0])
    assert place.ends(np.array([[50.0, -3.0], [51.0, 2.0]])) == [(-3.0, 2.0), (50.0, 51.0)]


def test_the_system_and_the_names_that_are_told(tmp_path: Path) -> None:
    X = np.c_[stations().geometry.x, stations().geometry.y]
    unsaid = cagp.Prior(cagp.Matern32(600.0), noise_variance=0.01).condition(X, stations()["zinc"])
    cagp.write_map(unsaid, tmp_path / "a.tif", "500m", about=About(crs=RD))
    plane_model().save(tmp_path / "model", about=About(features=("east", "north")))
    cagp.write_map(cagp.load(tmp_path / "model"), tmp_path / "b.tif", "500m")
    cagp.write_map(plane_model(), tmp_path / "c.tif", "500m", about=About(features=("one", "two")))
    for name in "abc":
        with rasterio.open(tmp_path / f"{name}.tif") as file:
            assert file.crs.to_epsg() == 28992
            assert file.bounds.left < 185_000
    globe_model().save(tmp_path / "globe", about=About(features=("first", "second")))
    cagp.write_map(cagp.load(tmp_path / "globe"), tmp_path / "d.tif", 0.01)
    with pytest.raises(InputError, match=r"system of about is EPSG:4326 .*that of the model EPSG:28992"):
        cagp.write_map(plane_model(), tmp_path / "e.tif", 500, about=About(crs=DEGREES))
    with pytest.raises(InputError, match="crs 'banana' is no coordinate system"):
        About(crs="banana")
    with pytest.raises(InputError, match=r"EPSG:4978 .* middle of the earth"):
        About(crs="EPSG:4978")
    regressor = cagp.estimator.CAGPRegressor(cagp.Matern32(600.0), optimizer=None).fit(X, stations()["zinc"])
    with pytest.raises(InputTypeError, match=r"model must be a cagp\.Model, got CAGPRegressor; its model_ is one"):
        cagp.write_map(regressor, tmp_path / "e.tif", 500)


def test_the_target_keeps_its_name_and_takes_no_unit_of_a_column(tmp_path: Path) -> None:
    frame = stations()
    quick: Any = {"kernel": "matern32", "mean": "constant", "transform": None, "uncertainty": False}
    fitted = cagp.fit(frame[["geometry"]], frame["zinc"], **quick, recalibrate=False, progress=False)
    plane_model().save(tmp_path / "model")
    unnamed = plane_model()
    unnamed.target_name = "y"  # as the northing is
    for model, name in (
        (plane_model(), "zinc"),
        (fitted, "zinc"),
        (cagp.load(tmp_path / "model"), "zinc"),
        (unnamed, "the target"),
    ):
        cagp.write_map(model, tmp_path / "map.tif", "500m", overwrite=True)
        with rasterio.open(tmp_path / "map.tif") as file:
            assert file.tags()["title"] == f"Gaussian process prediction of {name}"
            assert (file.tags(1)["long_name"], file.units[0]) == (f"posterior mean of {name}", None)
    assert "<h1>zinc</h1>" in fitted.map(tmp_path / "map.html", cells=40).read_text("utf-8")


def test_what_stands_in_the_way_of_a_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, store = plane_model(), tmp_path / "map.zarr"
    for name, make in (("d.tif", Path.mkdir), ("f.zarr", Path.touch), ("folder.zarr", Path.mkdir)):
        make(tmp_path / name)
        with pytest.raises(InputError, match=f"{name} is there, and no"):
            cagp.write_map(model, tmp_path / name, 500, overwrite=True)
    cagp.write_map(model, store, 500)
    with monkeypatch.context() as patch:
        rename = Path.rename

        def failing(self: Path, target: Path) -> Path:
            if ".partial-" in self.name:
                raise OSError("no")
            return rename(self, target)

        patch.setattr(Path, "rename", failing)
        with pytest.raises(OSError, match="nothing was written"):
            cagp.write_map(model, store, 1000, overwrite=True)
    with xr.open_dataset(store, engine="zarr") as found:
        assert found["x"][1] - found["x"][0] == 500
    cagp.write_map(model, store, 1000, overwrite=True)
    monkeypatch.setitem(sys.modules, "pyproj", None)
    with pytest.raises(ImportError, match=r"needs pyproj.*cagp\[geo\]"):
        MapOfModel.of(model, tmp_path / "new.nc", 500)


def test_cells_outside_of_a_mask_are_empty(tmp_path: Path) -> None:
    model = plane_model()
    area = gpd.GeoDataFrame(geometry=[shapely.Point(180_000, 331_000).buffer(700), shapely.box(0, 0, 1, 1)], crs=RD)
    area.to_file(tmp_path / "area.gpkg")
    mask = area.iloc[:1]
    cagp.write_map(model, tmp_path / "map.tif", 50, mask=mask)
    xs, ys = cells_of(tmp_path / "map.tif")
    inside = shapely.contains_xy(mask.geometry.iloc[0], xs, ys)
    with rasterio.open(tmp_path / "map.tif") as file:
        for band in file.read():
            np.testing.assert_array_equal(np.isfinite(band), inside)
        assert file.bounds.left == 179_300
        np.testing.assert_array_equal(file.read_masks(1) > 0, inside)
    with pytest.raises(InputError, match="at most 1,000,000,000"):  # the box at the origin is far away
        cagp.write_map(model, tmp_path / "other.tif", 1, mask=tmp_path / "area.gpkg")
    with pytest.raises(InputError, match="no cell has its centre in the mask"):
        cagp.write_map(model, tmp_path / "other.tif", 100, mask=gpd.GeoSeries([shapely.box(1, 1, 2, 2)], crs=RD))
    cagp.write_map(model, tmp_path / "again.tif", tmp_path / "map.tif", mask=mask.to_crs(DEGREES))  # is converted
    with rasterio.open(tmp_path / "map.tif") as file, rasterio.open(tmp_path / "again.tif") as again:
        np.testing.assert_array_equal(again.read(), file.read())
    with pytest.raises(InputError, match=r"must hold polygons, got .*Point"):
        cagp.write_map(model, tmp_path / "other.tif", 100, mask=stations())
    (tmp_path / "area.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match=r"a GeoDataFrame of polygons, got .*area.csv"):
        cagp.write_map(model, tmp_path / "other.tif", 100, mask=tmp_path / "area.csv")


def test_a_mask_is_in_any_turn_of_the_cells(tmp_path: Path) -> None:
    profile: dict[str, Any] = {"driver": "GTiff", "dtype": "uint8", "count": 1, "width": 36, "height": 18}
    with rasterio.open(
        tmp_path / "turn.tif", "w", crs=DEGREES, transform=rasterio.Affine(10, 0, 0, 0, -10, 90), **profile
    ) as file:  # from 0 to 360
        file.write(np.ones((1, 18, 36), dtype=np.uint8))
    mask = gpd.GeoSeries([shapely.box(-20, 30, 30, 60)], crs=DEGREES)
    cagp.write_map(globe_model(), tmp_path / "map.tif", tmp_path / "turn.tif", mask=mask)
    xs, ys = cells_of(tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        inside = ((xs < 30) | (xs > 340)) & (ys > 30) & (ys < 60)
        np.testing.assert_array_equal(np.isfinite(file.read(1)), inside)


def test_a_mask_in_another_system_keeps_its_edges(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cagp")
    east, north = np.meshgrid(np.arange(2.41e6, 6.6e6, 5e4), np.arange(1.61e6, 5.2e6, 5e4))
    degrees = pyproj.Transformer.from_crs("EPSG:3035", DEGREES, always_xy=True)
    wanted = shapely.contains_xy(shapely.box(-10, 40, 40, 60), *degrees.transform(east, north))
    area = Area.of(gpd.GeoSeries([shapely.box(-10, 40, 40, 60), None], crs=DEGREES), "EPSG:3035", False)
    np.testing.assert_array_equal(area.holds(east.ravel(), north.ravel(), False), wanted.ravel())
    (told,) = caplog.messages
    assert told.startswith("The polygons of mask are converted from EPSG:4326 (WGS 84) to EPSG:3035")
    world = gpd.GeoSeries([shapely.box(-2e7, -1e7, 2e7, 1e7)], crs="EPSG:3857")
    np.testing.assert_allclose(Area.of(world, DEGREES, True).bounds[::2], [-179.66, 179.66], atol=0.01)


def test_polygons_of_a_mask_may_cross_themselves_and_others() -> None:
    rng = np.random.default_rng(0)
    shapes = [shapely.box(2, 2, 8, 5), *(shapely.Polygon(10 * rng.random((7, 2))) for _ in range(6))]
    area, (x, y) = Area(tuple(shapes)), 10 * rng.random((2, 500))
    wanted = np.any([shapely.contains_xy(each, x, y) for each in shapes], axis=0)
    assert 50 < wanted.sum() < 450
    np.testing.assert_array_equal(area.holds(x, y, False), wanted)


@pytest.mark.parametrize(
    ("shape", "of", "to", "words"),
    [
        (None, RD, DEGREES, "must hold polygons, got nothing"),
        (shapely.Polygon(), RD, DEGREES, "must hold polygons, got nothing"),
        (shapely.box(170, 0, 171, 1), DEGREES, "+proj=ortho", r"from EPSG:4326 \(WGS 84\) to .*reaches beyond"),
        (shapely.box(3.0e6, -2.2e6, 3.7e6, -1.8e6), "EPSG:3832", DEGREES, "EPSG:3832 .* EPSG:4326 .*180th meridian"),
        (shapely.box(-3e6, -3e6, 3e6, 3e6), "EPSG:3413", DEGREES, "EPSG:3413 .* has a pole in it"),
        (shapely.Polygon([(5, 50), (6, 51), (6, 50), (5, 51)]), DEGREES, RD, "cross themselves; make_valid"),
        (shapely.box(-180, 60, 180, 90), DEGREES, "EPSG:3413", "there its polygons cross themselves"),
        (shapely.box(5, 50, 6, 51), 'LOCAL_CS["here",UNIT["metre",1]]', RD, "from here to .*, since nothing says how"),
    ],
)
def test_a_mask_that_cannot_be_converted(shape: Any, of: str, to: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Area.of(gpd.GeoSeries([shape], crs=of), to, globe=False)


def unsaid(frame: gpd.GeoDataFrame | None = None) -> cagp.Model:
    """The model of the stations that does not know their system."""
    frame = stations() if frame is None else frame
    X = np.c_[frame.geometry.x, frame.geometry.y]
    prior = cagp.Prior(cagp.Matern32((600.0, 700.0), 1.0), mean=5.0, noise_variance=0.01)
    return prior.condition(X, frame["zinc"], "cholesky")


def test_masks_and_models_without_a_system(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    area = gpd.GeoDataFrame(geometry=[shapely.box(179_000, 330_000, 180_000, 331_000)])
    with pytest.warns(UserWarning, match="'crs' was not provided"):
        area.to_file(tmp_path / "local.gpkg")
    for mask in (area, tmp_path / "local.gpkg"):  # both without: as they are
        cagp.write_map(unsaid(), tmp_path / "map.tif", 100, mask=mask, overwrite=True)
        unsaid().map(tmp_path / "map.html", mask=mask, cells=100)
    assert not caplog.messages
    with rasterio.open(tmp_path / "map.tif") as file:
        assert (file.crs, file.bounds) == (None, (179_000, 330_000, 180_000, 331_000))
    cagp.write_map(unsaid(), tmp_path / "said.tif", 100, mask=area.set_crs(RD))  # the mask alone: told
    unsaid().map(tmp_path / "map.html", mask=area.set_crs(RD), cells=100)
    with rasterio.open(tmp_path / "map.tif") as one, rasterio.open(tmp_path / "said.tif") as two:
        np.testing.assert_array_equal(one.read(), two.read())
    words = "mask is in EPSG:28992 (Amersfoort / RD New), and the model does not say its coordinate system (--crs at"
    assert [each.startswith(words) for each in caplog.messages] == [True, True]
    for mask, remedy in (  # the model alone: refused
        (area, r"if the mask is, too, mask\.set_crs\('EPSG:28992'\) says so"),
        (tmp_path / "local.gpkg", r"if the mask is, too, ogr2ogr -a_srs EPSG:28992 new\.gpkg .*local\.gpkg says so"),
    ):
        for door in (lambda **how: plane_model().map(tmp_path / "map.html", **how), in_a_file(tmp_path)):
            with pytest.raises(InputError, match=r"does not say .*, the model is in EPSG:28992 \(Amers.*; " + remedy):
                door(mask=mask)
    degrees = stations().to_crs(DEGREES)  # on the globe, in degrees of GPS
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.6), radius=6371.0), noise_variance=0.01)
    globe = prior.condition(np.c_[degrees.geometry.y, degrees.geometry.x], degrees["zinc"], "cholesky")
    for number, mask in enumerate(
        (area.set_crs(RD), area.set_crs(RD).to_crs(DEGREES).set_crs(None, allow_override=True))
    ):
        cagp.write_map(globe, tmp_path / f"{number}.tif", 0.005, mask=mask)
    with rasterio.open(tmp_path / "0.tif") as one, rasterio.open(tmp_path / "1.tif") as two:
        np.testing.assert_array_equal(one.read(), two.read())


def in_a_file(folder: Path) -> Any:
    return lambda **how: cagp.write_map(plane_model(), folder / "new.tif", 100, **how)


def test_a_map_away_from_all_data_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, words = plane_model(), "no cell lies within the data, x from 1785"
    away = gpd.GeoSeries([shapely.box(2e5, 3.3e5, 2.01e5, 3.31e5)], crs=RD)
    beside = gpd.GeoSeries([shapely.box(181_400, 3.3e5, 182_000, 3.31e5)], crs=RD)  # some cells of it are among them
    for mask in (None, beside):
        cagp.write_map(model, tmp_path / "near.tif", 100, mask=mask, overwrite=True)
        model.map(tmp_path / "near.html", mask=mask, cells=400)
    assert not caplog.messages
    cagp.write_map(model, tmp_path / "mask.tif", 100, mask=away)
    cagp.write_map(model, tmp_path / "cells.tif", tmp_path / "mask.tif")
    model.map(tmp_path / "mask.html", mask=away, cells=400)
    model.map(tmp_path / "like.html", like=gpd.GeoSeries.from_xy([2e5, 2.01e5], [3.3e5, 3.31e5], crs=RD), cells=400)
    names = [each.partition(": no cell")[0] for each in caplog.messages]
    assert names == [str(tmp_path / name) for name in ("mask.tif", "cells.tif", "mask.html", "like.html")]
    assert all(words in each and each.endswith("and says mostly what was assumed.") for each in caplog.messages)


@pytest.mark.parametrize(("west", "told"), [(-2.0, False), (358.0, False), (176.0, True)])
def test_data_of_another_turn_are_no_other_data(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, west: float, told: bool
) -> None:
    X = np.c_[np.linspace(40, 50, 20), np.linspace(-5, 5, 20)]
    model = cagp.Prior(cagp.Geographic(cagp.Matern32(0.1)), noise_variance=0.01).condition(X, X[:, 0])
    mask = gpd.GeoSeries([shapely.box(west, 44, west + 3, 46)], crs=DEGREES)
    cagp.write_map(model, tmp_path / "map.tif", 0.5, mask=mask)
    model.map(tmp_path / "map.html", mask=mask, cells=100)
    assert len(caplog.messages) == 2 * told


def raster(path: Path, crs: str | None = RD, names: tuple[str, ...] = ("height",)) -> Path:
    """A raster of 30 × 40 cells of 100 m, with the column "height", and nothing in a corner."""
    xs, ys = np.meshgrid(178_550 + 100 * np.arange(30), 333_450 - 100 * np.arange(40))
    band = np.where((xs < 178_800) & (ys > 333_000), -9999.0, np.sin(xs / 700))
    profile: dict[str, Any] = {"driver": "GTiff", "dtype": "float32", "count": len(names), "nodata": -9999.0}
    profile |= {"width": 30, "height": 40, "crs": crs, "transform": rasterio.Affine(100, 0, 178_500, 0, -100, 333_500)}
    with rasterio.open(path, "w", **profile) as file:
        for i, name in enumerate(names, start=1):
            file.write(band.astype("float32"), i)
            file.set_band_description(i, name)
    return path


def test_the_cells_of_a_raster_with_its_columns(tmp_path: Path) -> None:
    dem, out = raster(tmp_path / "dem.tif"), tmp_path / "map.tif"
    model = plane_model(columns=("geometry", "height"))
    cagp.write_map(model, out, dem)
    xs, ys = cells_of(dem)
    with rasterio.open(dem) as source, rasterio.open(out) as file:
        assert (file.transform, file.shape) == (source.transform, source.shape)
        height, there = source.read(1).astype(float), source.read_masks(1) > 0
        assert 0 < there.sum() < there.size
        np.testing.assert_array_equal(np.isfinite(file.read(1)), there)
        found = model.predict(np.c_[xs[there], ys[there], height[there]])
        np.testing.assert_allclose(file.read(2)[there], found.std, rtol=1e-11)
    with pytest.raises(InputError, match="also needs 'height', which cells do not have; give a raster"):
        cagp.write_map(model, tmp_path / "other.tif", 100)
    with rasterio.open(dem, "r+") as source:
        source.write(np.full((1, 40, 30), -9999.0, dtype="float32"))
    with pytest.raises(InputError, match=r"no cell of .*dem.tif has data; choose another raster"):
        cagp.write_map(model, tmp_path / "other.tif", dem)
    with pytest.raises(InputError, match="no band described as 'height', but 'slope'; rasterio's set_band_description"):
        cagp.write_map(model, tmp_path / "other.tif", raster(tmp_path / "slope.tif", names=("slope",)))


def test_one_band_without_a_description(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    named, bare = raster(tmp_path / "dem.tif"), raster(tmp_path / "bare.tif", names=("",))
    with rasterio.open(bare) as source:
        assert source.descriptions == (None,)
    model = plane_model(columns=("geometry", "height"))
    cagp.write_map(model, tmp_path / "a.tif", named)
    assert not caplog.messages
    cagp.write_map(model, tmp_path / "b.tif", bare)
    assert caplog.messages == [f"The only band of {bare}, which has no description, is taken for 'height'."]
    with rasterio.open(tmp_path / "a.tif") as one, rasterio.open(tmp_path / "b.tif") as two:
        np.testing.assert_array_equal(one.read(), two.read())
    two_bands = raster(tmp_path / "two.tif", names=("", ""))
    with pytest.raises(InputError, match="has no band described as 'height'"):
        cagp.write_map(model, tmp_path / "other.tif", two_bands)


def test_bands_have_scales_offsets_and_nan(tmp_path: Path) -> None:
    packed, plain, model = (
        tmp_path / "packed.tif",
        raster(tmp_path / "dem.tif"),
        plane_model(columns=("geometry", "height")),
    )
    with rasterio.open(plain) as source:
        heights, profile = source.read(1), source.profile | {"nodata": None}
    heights = np.round(np.where(heights < -9, 0.0, heights), 1)
    heights[0, :5] = np.nan  # beside no nodata, or another one, it is no data all the same
    for path, values, kind in ((plain, heights, "float32"), (packed, 10 * heights + 70, "float32")):
        with rasterio.open(path, "w", **profile | {"dtype": kind}) as file:
            file.write(values.astype(kind), 1)
            file.set_band_description(1, "height")
            if path == packed:
                file.scales, file.offsets = (0.1,), (-7.0,)
    cagp.write_map(model, tmp_path / "a.tif", plain)
    cagp.write_map(model, tmp_path / "b.tif", packed)
    with rasterio.open(tmp_path / "a.tif") as one, rasterio.open(tmp_path / "b.tif") as two:
        np.testing.assert_array_equal(np.isnan(one.read(1)), np.isnan(heights))
        np.testing.assert_allclose(two.read(), one.read(), atol=1e-5)


def test_a_raster_in_another_system_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "map.tif"
    with pytest.raises(
        InputError, match=r"is EPSG:32631 \(WGS 84 / UTM zone 31N\), that of the model is EPSG:28992 .*"
    ):
        cagp.write_map(plane_model(), out, raster(tmp_path / "utm.tif", "EPSG:32631"))
    with pytest.raises(InputError, match="is not said, that of the model is EPSG:28992"):
        cagp.write_map(plane_model(), out, raster(tmp_path / "none.tif", None))
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.5, 1.0)), noise_variance=0.01)
    degrees = prior.condition([[50.0, 5.0], [51.0, 6.0]], [0.0, 1.0])
    with pytest.raises(InputError, match="the model is in degrees"):
        cagp.write_map(degrees, out, raster(tmp_path / "rd.tif"))
    assert not out.exists()
    # a model that does not say its system has that of the raster
    X = np.c_[stations().geometry.x, stations().geometry.y]
    unsaid = cagp.Prior(cagp.Matern32(600.0), noise_variance=0.01).condition(X, stations()["zinc"])
    cagp.write_map(unsaid, out, tmp_path / "rd.tif")
    with rasterio.open(out) as file:
        assert file.crs.to_epsg() == 28992


@pytest.mark.parametrize(
    ("make", "grid", "words"),
    [
        (plane_model, "0.01deg", "do not go with EPSG:28992 .*; give a length, such as 500m"),
        (globe_model, "500m", "do not go with EPSG:4326 .*; give degrees"),
        (plane_model, "-5", "grid must be positive"),
        (plane_model, 0, "grid must be positive"),
        (plane_model, "there.tif", "neither a raster that is there nor the side of cells"),
        (plane_model, "1mm", "neither a raster that is there nor the side of cells"),
        (plane_model, 1e-3, "a map has at most 1,000,000,000; the area is"),
        (globe_model, 400.0, "larger than the globe"),
    ],
)
def test_grids_that_cannot_be(tmp_path: Path, make: Any, grid: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cagp.write_map(make(), tmp_path / "map.tif", grid)
    assert not list(tmp_path.iterdir())


def test_other_arguments_that_cannot_be(tmp_path: Path) -> None:
    model = plane_model()
    with pytest.raises(InputError, match=r"no ending of a map; maps are \.tif, \.tiff, \.nc, \.zarr"):
        cagp.write_map(model, tmp_path / "map.png", 100)
    (tmp_path / "map.tif").touch()
    with pytest.raises(InputError, match="is there already"):
        cagp.write_map(model, tmp_path / "map.tif", 100)
    cagp.write_map(model, tmp_path / "map.tif", 500, overwrite=True)
    prior = cagp.Prior(cagp.Matern32(1.0), noise_variance=0.01)
    with pytest.raises(InputError, match="does not say the unit of its coordinates"):
        cagp.write_map(prior.condition(np.eye(2), [0, 1]), tmp_path / "new.tif", "1m")
    films = pd.DataFrame(np.eye(3), columns=["x", "y", "t"])
    with pytest.raises(InputError, match=r"also needs 't', .* a NetCDF grid that has 't' as a coordinate, too"):
        cagp.write_map(prior.condition(films, [0, 1, 2]), tmp_path / "new.tif", 0.1)
    with pytest.raises(InputError, match="which are the coordinates"):
        cagp.write_map(prior.condition(np.eye(3), [0, 1, 2]), tmp_path / "new.tif", 0.1)


def test_feet_are_converted(tmp_path: Path) -> None:
    frame = stations().to_crs("EPSG:2263")  # in US survey feet
    cagp.write_map(plane_model(frame), tmp_path / "map.tif", "1km")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.res[0] == pytest.approx(1000 * 3937 / 1200, rel=1e-12)


def test_the_computational_share(tmp_path: Path) -> None:
    frame = stations()
    model = plane_model().prior.condition(frame[["geometry"]], frame["zinc"], cagp.GaussSeidel(2))
    cagp.write_map(model, tmp_path / "map.tif", 300, share=True)
    xs, ys = cells_of(tmp_path / "map.tif")
    post = model.predict(np.c_[xs.ravel(), ys.ravel()])
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.descriptions[-1] == "share"
        wanted = np.minimum(post.computational_variance.upper / post.variance, 1).reshape(xs.shape)
        np.testing.assert_allclose(file.read(5), wanted, rtol=1e-9)
        exact = plane_model().predict(np.c_[xs.ravel(), ys.ravel()]).variance
        assert (wanted.ravel() >= (1 - exact / post.variance) * (1 - 1e-6)).all()


@pytest.mark.parametrize("ending", ["tif", "nc", "zarr"])
def test_a_map_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    model, out, side = plane_model(), tmp_path / f"map.{ending}", 9.0  # 2 × 2 tiles
    cagp.write_map(model, tmp_path / f"whole.{ending}", side)
    save, saved = Pieces.save, list[int]()

    def stopping(pieces: Pieces, start: int, stop: int, **arrays: np.ndarray) -> None:
        if len(saved) == 2:
            raise KeyboardInterrupt
        saved.append(start)
        save(pieces, start, stop, **arrays)

    monkeypatch.setattr(Pieces, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        cagp.write_map(model, out, side)
    assert not out.exists()
    kept = {each: each.stat().st_mtime_ns for each in (tmp_path / f"map.{ending}.parts").rglob("*.npz")}
    assert len(kept) == 2
    again = list[int]()
    monkeypatch.setattr(
        Pieces, "save", lambda pieces, start, stop, **a: (again.append(start), save(pieces, start, stop, **a))
    )
    # another model has other tiles, and takes none of these
    other = model.with_more(stations(1, seed=5).geometry, [5.0])
    shutil.copytree(tmp_path / f"map.{ending}.parts", tmp_path / f"other.{ending}.parts")
    cagp.write_map(other, tmp_path / f"other.{ending}", side)
    assert again == [0, 1, 2, 3]
    again.clear()
    cagp.write_map(plane_model(), out, side)  # the same model made anew
    assert again == [2, 3]
    assert not (tmp_path / f"map.{ending}.parts").exists()
    engine = {"tif": "rasterio", "nc": "h5netcdf", "zarr": "zarr"}[ending]
    if engine == "rasterio":
        with rasterio.open(out) as one, rasterio.open(tmp_path / f"whole.{ending}") as two:
            np.testing.assert_array_equal(one.read(), two.read())
    else:
        with (
            xr.open_dataset(out, engine=engine) as first,
            xr.open_dataset(tmp_path / f"whole.{ending}", engine=engine) as second,
        ):
            xr.testing.assert_equal(first, second)


def test_tiles_of_other_columns_are_not_taken(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((20, 2))
    model = cagp.Prior(cagp.Matern32([0.1, 1.0]), noise_variance=0.1).condition(X, X[:, 0])
    keys = set()
    for names in (("lat", "lon"), ("lon", "lat")):
        made = MapOfModel.of(model, tmp_path / "map.tif", 0.1, about=About(features=names))
        keys.add(made.pieces._own)
    assert len(keys) == 2


def test_what_was_said_is_kept_with_the_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, out = plane_model(), tmp_path / "map.tif"
    with monkeypatch.context() as patch:
        patch.setattr(MapOfModel, "_layout", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cagp.write_map(model, out, 500)
    cagp.write_map(model, out, 500)
    with rasterio.open(out) as file:
        assert file.tags()["cagp_status"]


def test_a_model_that_cannot_be_saved_has_maps(tmp_path: Path) -> None:
    kernel = cagp.CustomKernel(lambda a, b: (-torch.cdist(a, b)).exp())
    model = cagp.Prior(kernel, noise_variance=0.1).condition(np.random.default_rng(0).random((20, 2)), np.arange(20.0))
    cagp.write_map(model, tmp_path / "map.tif", 0.1)
    with rasterio.open(tmp_path / "map.tif") as file:
        assert np.isfinite(file.read()).all()
        assert file.crs is None


def test_cells_far_beyond_the_data_of_a_trend_are_told_once_for_all_tiles(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame = stations()
    prior = cagp.Prior(cagp.Matern32(600.0), mean=cagp.Polynomial(1), noise_variance=0.01)
    model = prior.condition(frame[["geometry"]], frame["zinc"], cagp.NearestNeighbours(10))
    area = gpd.GeoDataFrame(geometry=[shapely.box(178_500, 329_500, 190_500, 330_500)], crs=RD)
    made = MapOfModel.of(model, tmp_path / "map.tif", 40.0, mask=area)
    assert len(made.tiles) > 1
    made.write(progress=False)
    (said,) = (each for each in caplog.messages if "beyond the observations" in each)
    assert "'x' is " in said
