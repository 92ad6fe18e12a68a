"""``cagp fit`` and ``predict`` with files of points and maps: the numbers of the library, systems kept, kills."""

from __future__ import annotations

import base64
import signal
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import rasterio
import shapely

import cagp
from cagp import saving, tables
from cagp.support.coordinate_systems import east_and_north
from cli.small import call, start
from maps.places import DEGREES, RD, stations
from reports.pages import sent

VALUES = ("--no-fit", "--variance", 1, "--noise-variance", 0.01, "--mean", "zero", "--no-report", "--no-recalibrate")


def ok(*arguments: object) -> str:
    """What a command that succeeds has said."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with stations.gpkg and a model of them."""
    stations().to_file(tmp_path / "stations.gpkg")
    asked = ["--target", "zinc", "--features", "x,y", "--lengthscale", "600", *VALUES]
    ok("fit", tmp_path / "stations.gpkg", "--out", tmp_path / "model", *asked)
    return tmp_path


@pytest.mark.parametrize("ending", [".gpkg", ".geojson", ".parquet"])
def test_files_of_points(folder: Path, ending: str) -> None:
    new = stations(20, seed=1)[["geometry"]].assign(name=[f"S{i}" for i in range(20)])
    source = folder / f"new{ending}"
    new.to_parquet(source) if ending == ".parquet" else new.to_file(source)
    ok("predict", folder / "model", source)
    out = folder / f"new-predicted{ending}"
    found = gpd.read_parquet(out) if ending == ".parquet" else gpd.read_file(out)
    assert found.crs == RD
    assert list(found.columns) == ["mean", "std", "lower_95", "upper_95", "geometry"]
    assert found.geometry.geom_equals_exact(new.geometry, 1e-6).all()
    model = cagp.load(folder / "model")
    np.testing.assert_allclose(found["std"], model.predict(new.geometry).std, rtol=1e-9)
    ok("predict", folder / "model", source, "--out", folder / "plain.csv")
    assert list(tables.read_table(folder / "plain.csv").columns)[:2] == ["x", "y"]


def test_a_model_that_does_not_use_the_places_keeps_them(tmp_path: Path) -> None:
    stations().to_file(tmp_path / "stations.gpkg")
    asked = ["--target", "zinc", "--features", "height", "--lengthscale", "600", *VALUES]
    ok("fit", tmp_path / "stations.gpkg", "--out", tmp_path / "model", *asked)
    ok("predict", tmp_path / "model", tmp_path / "stations.gpkg", "--out", tmp_path / "out.gpkg")
    found = gpd.read_file(tmp_path / "out.gpkg")
    assert list(found.columns) == ["height", "mean", "std", "lower_95", "upper_95", "geometry"]
    assert found.geometry.geom_equals_exact(stations().geometry, 1e-6).all()


def test_degrees_are_on_the_globe(tmp_path: Path) -> None:
    stations().to_crs(DEGREES).to_file(tmp_path / "stations.geojson")
    asked = ["--target", "zinc", "--exclude", "height", "--lengthscale", "0.6", *VALUES]
    said = ok("fit", tmp_path / "stations.geojson", "--out", tmp_path / "model", *asked)
    assert "'latitude' and 'longitude' are degrees: distance is measured on the globe" in said
    assert isinstance(cagp.load(tmp_path / "model").prior.kernel, cagp.Geographic)
    assert "coordinate system EPSG:4326 (WGS 84)" in ok("info", tmp_path / "model")
    stations().to_file(tmp_path / "metres.gpkg")
    refused = call("predict", tmp_path / "model", tmp_path / "metres.gpkg")
    assert refused.exit_code == 2
    assert "is EPSG:28992 (Amersfoort / RD New), that of the model EPSG:4326 (WGS 84)" in refused.output


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    frame = stations()
    frame.to_file(tmp_path / "two.gpkg", layer="a")
    frame.to_file(tmp_path / "two.gpkg", layer="b")
    frame.set_geometry(frame.buffer(5)).to_file(tmp_path / "areas.gpkg")
    frame.set_crs(None, allow_override=True).to_parquet(tmp_path / "nowhere.parquet")
    (tmp_path / "damaged.gpkg").write_bytes(b"no GeoPackage")
    (tmp_path / "damaged.geojson").write_text('{"type": "FeatureCollection", "features": [')
    for name, words in {
        "two.gpkg": "has 2 layers, 'a', 'b'; take one out: ogr2ogr",
        "areas.gpkg": "has a Polygon in its geometry",
        "nowhere.parquet": "say which it is; for degrees of GPS: ogr2ogr -a_srs EPSG:4326 new.gpkg",
        "damaged.gpkg": "cannot be read as a file with a geometry",
        "damaged.geojson": "cannot be read as a file with a geometry",
    }.items():
        with pytest.raises(cagp.TableError) as caught:
            tables.read_columns(tmp_path / name)
        assert words in str(caught.value)


def test_points_need_a_system(folder: Path) -> None:
    new = tables.read_table(folder / "stations.gpkg", ["x", "y"])
    tables.write_table(folder / "new.csv", new.columns)
    for command, data in (("predict", "new.csv"), ("average", "stations.gpkg"), ("simulate", "stations.gpkg")):
        refused = call(command, folder / "model", folder / data, "--out", folder / "out.gpkg")
        assert refused.exit_code == 2, command
        assert "is a file of points with a coordinate system" in refused.output
    with pytest.raises(cagp.InputError, match="needs the coordinate system of its points"):
        tables.write_table(folder / "out.gpkg", new.columns)


def test_a_map_has_the_numbers_of_the_library(folder: Path) -> None:
    polygon = gpd.GeoDataFrame(geometry=[shapely.box(179_000, 330_000, 180_500, 332_000)], crs=RD)
    polygon.to_file(folder / "area.geojson")
    arguments = ["predict", folder / "model", "--grid", "100m", "--mask", folder / "area.geojson", "--observed"]
    said = ok(*arguments, "--out", folder / "map.tif", "--exceed", "5", "--interval", 80, "--share")
    assert "20 × 15 cells of 100 × 100 with Cholesky()." in said
    assert "converted" not in said
    refused = call(*arguments, "--out", folder / "map.tif")
    assert "is there already; --overwrite replaces it" in " ".join(refused.output.split())
    page = folder / "both.html"
    arguments += ["--out", folder / "map.tif", "--overwrite", "--exceed", 5, "--interval", 80, "--share"]
    assert said.count("Written") + 1 == ok(*arguments, "--map", page).count("Written")
    shown = sent(page)
    assert (shown["level"], shown["stops"]["start"]) == (0.8, 5)
    assert shown["outside"] == ""  # the mask is a box
    model = cagp.load(folder / "model")
    names = ("mean", "std", "lower", "upper", "exceeds_5", "share")
    same = {"mask": polygon, "observed": True, "level": 0.8, "exceed": 5, "share": True}
    cagp.write_map(model, folder / "other.tif", 100, **same)
    with rasterio.open(folder / "map.tif") as one, rasterio.open(folder / "other.tif") as two:
        assert one.descriptions == names
        np.testing.assert_array_equal(one.read(), two.read())
        assert one.crs.to_epsg() == 28992


def test_the_cells_of_a_raster(folder: Path) -> None:
    """Those of a map that was made before, and of a raster with the other column of a model; another one is refused."""
    asked = ["--target", "zinc", "--lengthscale", "600,700,2", *VALUES]
    ok("fit", folder / "stations.gpkg", "--out", folder / "heights", *asked)
    ok("predict", folder / "model", "--grid", "200m", "--out", folder / "cells.tif")
    said = ok("predict", folder / "model", "--grid", folder / "cells.tif", "--out", folder / "again.tif")
    with rasterio.open(folder / "cells.tif") as one, rasterio.open(folder / "again.tif") as two:
        assert f"{one.height} × {one.width} cells of 200 × 200 with" in said
        assert (one.transform, one.crs) == (two.transform, two.crs)
        np.testing.assert_array_equal(one.read(), two.read())
        height, profile = np.cos(one.read(1)), {**one.profile, "count": 1}
        xs, ys = (np.reshape(each, one.shape) for each in one.xy(*map(np.ravel, np.indices(one.shape))))
    height[:2] = np.nan
    with rasterio.open(folder / "dem.tif", "w", **profile) as file:
        file.write(height, 1)
        file.set_band_description(1, "height")
    ok("predict", folder / "heights", "--grid", folder / "dem.tif", "--out", folder / "map.tif")
    there = np.isfinite(height)
    with rasterio.open(folder / "map.tif") as file:
        np.testing.assert_array_equal(file.read_masks(1) > 0, there)
        found = cagp.load(folder / "heights").predict(np.c_[xs[there], ys[there], height[there]])
        np.testing.assert_allclose(file.read(1)[there], found.mean, rtol=1e-11)
    refused = call("predict", folder / "heights", "--grid", folder / "cells.tif", "--out", folder / "other.tif")
    assert refused.exit_code == 2
    assert "has no band described as 'height', but 'mean', 'std'" in " ".join(refused.output.split())


def test_units_and_names_go_from_the_file_to_the_map(tmp_path: Path) -> None:
    frame = stations()
    columns = {"x": frame.geometry.x.to_numpy(), "y": frame.geometry.y.to_numpy(), "zinc": frame["zinc"].to_numpy()}
    about = {"zinc": {"units": "mg/kg", "long_name": "zinc in soil"}, "x": {"units": "m"}, "y": {"units": "m"}}
    tables.write_table(tmp_path / "stations.nc", columns, attributes=about)
    asked = ["--target", "zinc", "--features", "x,y", "--lengthscale", "600", *VALUES]
    ok("fit", tmp_path / "stations.nc", "--out", tmp_path / "model", *asked)
    ok("predict", tmp_path / "model", "--grid", 200, "--out", tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.units == ("mg/kg",) * 4
        assert file.tags(2)["long_name"] == "posterior standard deviation of zinc in soil"


def test_a_csv_says_its_system_on_the_command_line(folder: Path) -> None:
    """A CSV of eastings and northings with --crs makes the map, and refuses the systems, that a GeoPackage does."""
    frame = stations()
    table = {"easting": frame.geometry.x.to_numpy(), "northing": frame.geometry.y.to_numpy(), "zinc": frame["zinc"]}
    tables.write_table(folder / "stations.csv", {name: np.asarray(values) for name, values in table.items()})
    asked = ["--target", "zinc", "--lengthscale", "600", *VALUES, "--crs", RD]
    ok("fit", folder / "stations.csv", "--out", folder / "plain", *asked)
    about = saving.read(folder / "plain").about
    assert (about.crs, about.units) == (RD, {"easting": "m", "northing": "m"})
    for name in ("plain", "model"):
        ok("predict", folder / name, "--grid", "200m", "--out", folder / f"{name}.tif")
    with rasterio.open(folder / "plain.tif") as one, rasterio.open(folder / "model.tif") as two:
        assert (one.crs, one.transform, one.shape) == (two.crs, two.transform, two.shape)
        np.testing.assert_allclose(one.read(), two.read(), rtol=1e-9)
    ok("predict", folder / "plain", folder / "stations.gpkg", "--out", folder / "points.gpkg")
    np.testing.assert_allclose(
        gpd.read_file(folder / "points.gpkg")["mean"],
        cagp.load(folder / "model").predict(frame.geometry).mean,
        rtol=1e-9,
    )
    frame.to_crs(DEGREES).to_file(folder / "degrees.gpkg")
    refused = call("predict", folder / "plain", folder / "degrees.gpkg")
    assert refused.exit_code == 2
    assert "is EPSG:4326 (WGS 84), that of the model EPSG:28992 (Amersfoort / RD New)" in refused.output


@pytest.mark.parametrize(
    "names",
    [
        "Rechtswert,Hochwert",
        "ostwert,nordwert",
        "RW,HW",
        "E,N",
        "Easting,NORTHING",
        "N,E",
        "X,Y",
        "x,y,n",
        "height,rw,n",
    ],
)
def test_coordinates_have_names_in_use(names: str) -> None:
    given = names.lower().split(",")
    east = next(i for i, name in enumerate(given) if name in ("rechtswert", "ostwert", "rw", "e", "easting", "x"))
    north = next(i for i, name in enumerate(given) if name in ("hochwert", "nordwert", "hw", "n", "northing", "y"))
    for system in (RD, None):
        assert east_and_north([*names.split(","), "soil"], system) == (east, north)


@pytest.mark.parametrize("names", ["x,y,lon,lat", "n,soil", "rw,e,n", "x,n", "rechtswert,y,x"])
def test_coordinates_that_names_do_not_tell(names: str) -> None:
    assert east_and_north(names.split(",")) is None


def test_degrees_of_a_csv_are_on_the_globe(tmp_path: Path) -> None:
    frame = stations().to_crs(DEGREES)
    columns = {"lon": frame.geometry.x, "lat": frame.geometry.y, "zinc": frame["zinc"]}
    tables.write_table(tmp_path / "stations.csv", {name: np.asarray(values) for name, values in columns.items()})
    asked = ["--target", "zinc", "--lengthscale", "0.6", *VALUES, "--crs", DEGREES]
    said = ok("fit", tmp_path / "stations.csv", "--out", tmp_path / "model", *asked)
    assert "'lat' and 'lon' are degrees: distance is measured on the globe" in said
    ok("predict", tmp_path / "model", "--grid", "0.01", "--out", tmp_path / "map.tif")
    model = cagp.load(tmp_path / "model")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.crs.to_epsg() == 4326
        x, y = file.xy(1, 2)
        np.testing.assert_allclose(file.read(1)[1, 2], model.predict([[x, y]]).mean[0], rtol=1e-10)


@pytest.mark.parametrize(
    ("header", "crs", "words"),
    [
        ("x,y,zinc", "banana", "crs 'banana' is no coordinate system that pyproj knows; write it as EPSG:28992"),
        ("lon,lat,zinc", RD, "'lat' and 'lon' are names of degrees, and EPSG:28992 (Amersfoort / RD New) has none"),
        ("a,b,zinc", DEGREES, "their names do not say which; call them x and y"),
        ("gpkg", DEGREES, "--crs is EPSG:4326 (WGS 84), and stations.gpkg is in EPSG:28992 (Amersfoort / RD New)"),
    ],
)
def test_a_system_that_cannot_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch, header: str, crs: str, words: str
) -> None:
    monkeypatch.chdir(folder)
    Path("table.csv").write_text(f"{header}\n" + "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(30)))
    source = "stations.gpkg" if header == "gpkg" else "table.csv"
    refused = call("fit", source, "--target", "zinc", "--out", "new", "--lengthscale", "6", *VALUES, "--crs", crs)
    assert refused.exit_code == 2
    assert words in " ".join(refused.output.split())
    assert not Path("new").exists()


def test_a_page_of_a_mask(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cagp")
    area = gpd.GeoDataFrame(geometry=[shapely.Point(180_000, 331_500).buffer(500)], crs=RD)
    area.to_file(folder / "area.gpkg")
    page = folder / "map.html"
    ok("predict", folder / "model", folder / "stations.gpkg", "--map", page, "--mask", folder / "area.gpkg")
    data = sent(page)
    x, y = (data[a]["first"] + data[a]["step"] * np.arange(data[a]["n"]) for a in ("across", "down"))
    np.testing.assert_allclose([x[0], y[-1]], [179_500, 332_000], atol=10)  # the extent of the mask
    outside = np.frombuffer(base64.b64decode(data["outside"]), np.uint8).reshape(len(y), len(x)) > 0
    xs, ys = np.meshgrid(x, y)
    np.testing.assert_array_equal(~outside, shapely.contains_xy(area.geometry.iloc[0], xs, ys))
    inside = cagp.load(folder / "model").predict(np.c_[xs[~outside], ys[~outside]]).mean
    low, high = data["meanEnds"]
    assert inside.min() - 1e-6 <= low <= high <= inside.max() + 1e-6
    area.to_crs(DEGREES).to_file(folder / "other.gpkg")
    arguments = ["predict", folder / "model", folder / "stations.gpkg", "--map", folder / "again.html", "--overwrite"]
    ok(*arguments, "--mask", folder / "other.gpkg")
    ok(*arguments[:2], "--grid", "500m", "--out", folder / "map.tif", *arguments[3:], "--mask", folder / "other.gpkg")
    converted = [
        each for each in caplog.messages if "other.gpkg are converted from EPSG:4326 (WGS 84) to EPSG:28992" in each
    ]
    assert len(converted) == 2  # once by each command
    again = sent(folder / "again.html")["across"]
    np.testing.assert_allclose([again["first"], again["step"]], [data["across"]["first"], data["across"]["step"]])


def test_a_killed_map_goes_on(folder: Path) -> None:
    """Killed with two of four tiles done: the same command takes these and makes the rest."""
    arguments = ["predict", folder / "model", "--grid", "9m", "--out", folder / "map.tif"]
    running = start(2, folder / "hold", *arguments)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    kept = {each: each.stat().st_mtime_ns for each in (folder / "map.tif.parts").rglob("*.npz")}
    assert len(kept) == 2
    assert not (folder / "map.tif").exists()
    assert "Continuing: 2 of 4 tiles were finished before." in ok(*arguments)
    ok("predict", folder / "model", "--grid", "9m", "--out", folder / "whole.tif")
    with rasterio.open(folder / "map.tif") as one, rasterio.open(folder / "whole.tif") as two:
        np.testing.assert_array_equal(one.read(), two.read())
    assert not (folder / "map.tif.parts").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "cagp predict needs a table, DATA, or --grid for a map"),
        (["--grid", "100"], "--grid needs --out: map.tif, map.nc or map.zarr"),
        (["stations.gpkg", "--grid", "100", "--out", "map.tif"], "DATA is for tables, and --grid makes a map"),
        (["--grid", "100", "--out", "map.tif", "--no-std"], "--no-std is for tables"),
        (["--grid", "100", "--out", "map.tif", "--batch", "9"], "--batch is for tables"),
        (["--grid", "1deg", "--out", "map.tif"], "do not go with EPSG:28992"),
        (["stations.gpkg", "--share"], "--mask and --share are for maps, which --grid asks for"),
        (["--grid", "100", "--out", "map.png"], "no ending of a map"),
    ],
)
def test_options_that_do_not_go_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(folder)
    refused = call("predict", "model", *arguments)
    assert refused.exit_code == 2
    assert words in " ".join(refused.output.split())
