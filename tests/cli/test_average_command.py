"""``cagp average``: the numbers are those of the library; regions by texts and numbers; grids by area."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cagp
from cagp import saving
from cagp.tables import read_columns, read_labelled, read_table, write_table
from cli.small import VALUES, call, write_small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model."""
    place = tmp_path_factory.mktemp("average")
    write_small(place / "train.csv", 60)
    arguments = ["fit", place / "train.csv", "--target", "height", "--out", place / "model", *VALUES, "--no-report"]
    assert call(*arguments).exit_code == 0
    return place


def _regions(place: Path, ending: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, Path]:
    rng = np.random.default_rng(2)
    X, area = rng.random((40, 2)), rng.random(40)
    names = np.array(["fen", "moor", "weald"])[rng.integers(0, 3, 40)]
    table = {"east": X[:, 0], "north": X[:, 1], "area": area, "place": names}
    write_table(place / f"regions{ending}", table)
    return X, area, names, place / f"regions{ending}"


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("out", ["out.csv", "out.nc"])
def test_numbers_are_those_of_the_library(folder: Path, tmp_path: Path, ending: str, out: str) -> None:
    X, area, names, data = _regions(tmp_path, ending)
    arguments = ["average", folder / "model", data, "--by", "place", "--weights", "area", "--out", tmp_path / out]
    result = call(*arguments, "--interval", 80, "--observed", "--exceed", 0.5)
    assert result.exit_code == 0, result.output
    assert "3 averages of 40 points" in result.output
    expected = saving.load(folder / "model").average(X, area, by=names).observed()
    lower = "lower" if out.endswith(".nc") else "lower_80"
    table = read_table(tmp_path / out, ["points", "mean", "std", lower, "exceeds_0.5"])
    np.testing.assert_allclose(table.columns["exceeds_0.5"], expected.exceedance(0.5), rtol=1e-8)
    np.testing.assert_allclose(table.columns["mean"], expected.mean, rtol=1e-10)
    np.testing.assert_allclose(table.columns["std"], expected.std, rtol=1e-10)
    np.testing.assert_allclose(table.columns[lower], expected.interval(0.8)[0], rtol=1e-10)
    np.testing.assert_array_equal(table.columns["points"], np.unique(names, return_counts=True)[1])
    if out.endswith(".nc"):
        with xr.open_dataset(tmp_path / out) as written:
            assert written["place"].values.tolist() == ["fen", "moor", "weald"]
            assert written.attrs["cagp_weights"] == "area"
            assert written.attrs["cagp_guarantee"].startswith("under the prior")
    else:
        assert (tmp_path / out).read_text().splitlines()[1].replace('"', "").startswith("fen,")
    assert call(*arguments).exit_code == 2  # it is there already
    assert call(*arguments, "--overwrite", "--weights", "equal").exit_code == 0


def test_missing_labels_and_one_mean(folder: Path, tmp_path: Path) -> None:
    lines = ["east,north,zone", "0.1,0.2,1", ",,", "0.3,0.9,", "0.5,0.5,2", "0.6,0.6,1"]
    (tmp_path / "zones.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "zones.nc"
    result = call("average", folder / "model", tmp_path / "zones.csv", "--by", "zone", "--out", out)
    assert result.exit_code == 0, result.output
    assert "1 of its rows are empty" in result.output
    assert "1 rows" in result.output
    model = saving.load(folder / "model")
    X = np.array([[0.1, 0.2], [0.5, 0.5], [0.6, 0.6]])
    np.testing.assert_allclose(read_table(out).columns["mean"], model.average(X, by=[1, 2, 1]).mean, rtol=1e-10)
    whole = call(
        "average", folder / "model", tmp_path / "zones.csv", "--drop-missing", "--out", tmp_path / "one.csv", "--quiet"
    )
    assert whole.exit_code == 0
    assert not whole.output
    four = np.vstack([X, [[0.3, 0.9]]])
    table = read_table(tmp_path / "one.csv")
    np.testing.assert_allclose(table.columns["mean"], model.average(four).mean, rtol=1e-10)
    labelled, labels, outside = read_labelled(read_columns(tmp_path / "zones.csv"), ["east"], "zone")
    assert (labels.tolist(), outside, labelled.rows.tolist()) == ([1, 2, 1], 1, [0, 2, 3])


def test_averages_of_a_transform_and_of_a_recalibration(folder: Path, tmp_path: Path) -> None:
    """The first are simulated, and told to be; how probable the second are is refused before any work."""
    X, area, names, data = _regions(tmp_path, ".csv")
    model, about = saving.load(folder / "model"), saving.About(features=["east", "north"], target="height")
    prior, y = model.prior.transformed("log"), np.exp(np.asarray(model.y))
    prior.condition(np.asarray(model.X), y).save(tmp_path / "log", about=about)
    model.recalibrated().save(tmp_path / "mended", about=about)
    options = ["--by", "place", "--weights", "area", "--exceed", "1.5,2", "--out", tmp_path / "o.csv"]
    result = call("average", tmp_path / "log", data, *options)
    assert result.exit_code == 0, result.output
    assert "Standard errors of the simulation" in result.output
    expected = saving.load(tmp_path / "log").average(X, area, by=names)
    table = read_table(tmp_path / "o.csv", ["mean", "std", "exceeds_1.5", "exceeds_2"])
    for name, values in (("mean", expected.mean), ("std", expected.std), ("exceeds_2", expected.exceedance(2.0))):
        np.testing.assert_allclose(table.columns[name], values, rtol=1e-8)
    result = call("average", tmp_path / "mended", data, *options, "--overwrite")
    assert result.exit_code == 2
    assert "not how they go together" in " ".join(result.stderr.split())
    assert call("average", tmp_path / "mended", data, "--out", tmp_path / "mean.csv").exit_code == 0


def test_grids_count_by_area(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-80, 80, 40), rng.uniform(0, 360, 40)])
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.5)), noise_variance=0.1)
    model = prior.condition(places, rng.normal(size=40), cagp.Cholesky())
    model.save(tmp_path / "model", about=saving.About(features=["lat", "lon"], target="t"))
    lat, lon = np.linspace(-60, 60, 5), np.linspace(0, 300, 6)
    zone = np.full((5, 6), np.nan)
    zone[:2], zone[3] = 1, 7
    grid = xr.Dataset({"zone": (("lat", "lon"), zone)}, {"lat": lat, "lon": lon})
    grid.to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    result = call("average", tmp_path / "model", tmp_path / "grid.nc", "--by", "zone", "--out", tmp_path / "a.csv")
    assert result.exit_code == 0, result.output
    assert "cosine of 'lat'" in result.output
    points = np.array([(a, b) for a in lat for b in lon])
    inside = ~np.isnan(zone.ravel())
    expected = model.average(points[inside], np.cos(np.deg2rad(points[inside, 0])), by=zone.ravel()[inside].astype(int))
    table = read_table(tmp_path / "a.csv")
    np.testing.assert_array_equal(table.columns["zone"], [1, 7])
    np.testing.assert_allclose(table.columns["mean"], expected.mean, rtol=1e-10)
    np.testing.assert_allclose(table.columns["std"], expected.std, rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "plaice"], "no column 'plaice'"),
        (["--by", "place", "--weights", "mass"], "--weights"),
        (["--by", "east"], "is a feature"),
        (["--interval", "0.95"], "per cent"),
    ],
)
def test_refused(folder: Path, tmp_path: Path, options: list[str], words: str) -> None:
    *_, data = _regions(tmp_path, ".csv")
    result = call("average", folder / "model", data, "--out", tmp_path / "o.csv", *options)
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "o.csv").exists()
