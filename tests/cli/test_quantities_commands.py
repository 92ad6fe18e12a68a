"""The commands on models of several quantities: MODEL, and MODEL/NAME as the model of one of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cagp
from cagp.kernels import Coregionalised
from cagp.means import ByQuantity
from cagp.quantities import QuantitiesModel, stacked
from cagp.saving import About
from cagp.tables import read_columns, write_table
from cli.small import call

DEGREES, RD = "EPSG:4326", "EPSG:28992"


def places(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Degrees (n, 2), longitudes first, and two quantities (n, 2)."""
    rng = np.random.default_rng(0)
    X = rng.uniform([5.0, 51.0], [6.0, 52.0], (n, 2))
    return X, np.sin(3 * X) + 0.1 * rng.normal(size=(n, 2))


def saved(folder: Path, names: tuple[str, str] = ("Cd", "Zn"), together: bool = True, crs: str | None = None) -> Path:
    """A model of two quantities at longitudes and latitudes, on the globe."""
    X, Y = places()
    kernel = cagp.kernels.Geographic(cagp.Matern32(60.0)).on(1, 0)
    if together:
        joint = Coregionalised.of(kernel, [[1.0, 0.5], [0.5, 1.0]])
        models = cagp.Prior(joint, mean=ByQuantity(2), noise_variance=0.1).condition(*stacked(X, Y), "cholesky")
        model = QuantitiesModel(names, models)
    else:
        own = cagp.Prior(kernel, mean=cagp.Constant(), noise_variance=0.1)
        model = QuantitiesModel(names, [own.condition(X, y, "cholesky") for y in Y.T])
    return model.save(folder / "model", about=About(("lon", "lat"), crs=crs))


def table(path: Path, names: tuple[str, str] = ("lon", "lat"), **more: np.ndarray) -> Path:
    X, _ = places()
    write_table(path, dict(zip(names, X.T, strict=True)) | more)
    return path


@pytest.mark.parametrize("together", [True, False])
def test_one_of_several_quantities_on_the_globe(tmp_path: Path, together: bool) -> None:
    model = saved(tmp_path, together=together)
    told = call("info", model / "Zn")
    assert told.exit_code == 0, told.output
    assert "12 observations of Zn" in told.output
    assert "region" in told.output
    data, page = table(tmp_path / "points.csv"), tmp_path / "map.html"
    drawn = call("predict", model / "Zn", data, "--out", tmp_path / "out.csv", "--map", page)
    assert drawn.exit_code == 0, drawn.output
    assert page.exists()
    checked = call("check", model / "Zn")
    assert checked.exit_code in (0, 3), checked.output
    assert (tmp_path / "model-Zn-check" / "check.html").exists()


def test_info_names_the_quantities(tmp_path: Path) -> None:
    several = saved(tmp_path)
    first = call("info", several).stdout.splitlines()[0]
    assert first == f"{several}: Cd and Zn, together; `cagp info {several / 'Cd'}` shows the model of one."
    told = call("info", several / "Zn").stdout
    assert "12 observations of Zn, among 24 of Cd and Zn, 2 features" in " ".join(told.split())
    rows = {name: line.split(name)[1].strip() for line in told.splitlines() for name in line.split()[:1]}
    assert rows["kernel.deviations[1]"].startswith("Zn: 1.00")
    assert rows["kernel.angle[0]"].startswith("Cd and Zn: 60.0")
    assert "quantity 1" not in told
    assert any(line.split()[:1] == ["kernel.kernel.kernel.kernel.lengthscale"] for line in told.splitlines())


def test_info_tells_the_noise_of_outliers(tmp_path: Path) -> None:
    X, Y = places()
    factors = np.where(np.arange(12) == 3, 50.0, 1.0)
    prior = cagp.Prior(cagp.Matern32(0.5), noise_variance=0.1, noise_factors=factors)
    prior.condition(X, Y[:, 0], "cholesky").save(tmp_path / "model")
    told = call("info", tmp_path / "model")
    assert told.exit_code == 0, told.output
    assert "0.1, more for 1 outlier" in " ".join(told.output.split())


def test_tables_are_matched_to_several_quantities(tmp_path: Path) -> None:
    """Columns called otherwise, files of points and their coordinate system: as for a model of one quantity."""
    gpd = pytest.importorskip("geopandas")
    model, (X, _) = saved(tmp_path, crs=DEGREES), places()
    frame = gpd.GeoDataFrame(geometry=gpd.points_from_xy(*X.T), crs=DEGREES)
    frame.to_file(tmp_path / "points.gpkg")
    frame.to_crs(RD).to_file(tmp_path / "plane.gpkg")
    refused = call("predict", model, tmp_path / "plane.gpkg", "--out", tmp_path / "out.csv")
    assert "that of the model EPSG:4326" in " ".join(refused.output.split()), refused.output
    refused = call("predict", model, table(tmp_path / "points.csv"), "--out", tmp_path / "out.gpkg")
    assert "which " in refused.output
    assert "does not say" in " ".join(refused.output.split())
    for folder, out, prefix in ((model, "out.gpkg", "Zn_"), (model / "Zn", "one.gpkg", "")):
        found = call("predict", folder, tmp_path / "points.gpkg", "--out", tmp_path / out)
        assert found.exit_code == 0, found.output
        assert gpd.read_file(tmp_path / out).crs == DEGREES
        mean = gpd.read_file(tmp_path / out)[f"{prefix}mean"]
        np.testing.assert_allclose(mean, cagp.load(model)["Zn"].predict(X).mean)
    call("predict", model, table(tmp_path / "spaced.csv", (" lon", "lat ")), "--out", tmp_path / "out.csv")
    assert "Zn_mean" in read_columns(tmp_path / "out.csv").names


def test_degrees_may_be_a_plane_and_a_trend_goes_together(tmp_path: Path) -> None:
    _, Y = places()
    data = table(tmp_path / "data.csv", Cd=Y[:, 0], Zn=Y[:, 1])
    asked = ("--features", "lon,lat", "--crs", DEGREES, "--globe", "none", "--mean", "constant", "--together")
    quick = ("--kernel", "matern32", "--no-varying", "--transform", "none", "--no-recalibrate")
    fitted = call("fit", data, "--target", "Cd,Zn", "--out", tmp_path / "new", *asked, *quick)
    assert fitted.exit_code == 0, fitted.output
    kernel = repr(cagp.load(tmp_path / "new")["Zn"].prior.kernel)
    assert "Coregionalised" in kernel
    assert "Geographic" not in kernel


def test_names_with_slashes_are_quantities_and_nothing_else_goes_in(tmp_path: Path) -> None:
    model = saved(tmp_path, ("Cd/kg", "Zn.1"), together=False)
    X, Y = places()
    assert call("info", model / "Cd/kg").exit_code == 0
    np.testing.assert_allclose(cagp.load(model / "Zn.1").y, Y[:, 1])
    assert "no quantity 'Cd'" in call("info", model / "Cd").output
    data = table(tmp_path / "more.csv", **{"Zn.1": Y[:, 1] + 1})
    refused = call("update", model / "Zn.1", data, "--out", model / "Zn.1", "--overwrite")
    assert "no other goes in there" in " ".join(refused.output.split())
    assert call("update", model / "Zn.1", data, "--out", tmp_path / "more").exit_code == 0
    (tmp_path / "quantities.json").write_text("[]")  # of somebody else
    cagp.load(model).save(tmp_path / "another")
    cagp.load(model).save(model, overwrite=True)
    np.testing.assert_allclose(cagp.load(model).predict(X).mean, cagp.load(tmp_path / "another").predict(X).mean)


def test_what_was_measured_where_it_is_wanted_is_told_to_go_to_the_fit(tmp_path: Path) -> None:
    model, (_, Y) = saved(tmp_path), places()
    told = call("predict", model, table(tmp_path / "points.csv", Zn=Y[:, 1]), "--out", tmp_path / "out.csv")
    assert told.exit_code == 0, told.output
    assert "Not used: Zn in" in told.output
    plain = call("predict", model, table(tmp_path / "plain.csv"), "--out", tmp_path / "other.csv")
    assert "Not used" not in plain.output


def test_a_report_of_several_quantities_is_refused_by_its_name(tmp_path: Path) -> None:
    _, Y = places()
    data = table(tmp_path / "data.csv", Cd=Y[:, 0], Zn=Y[:, 1])
    refused = call("fit", data, "--target", "Cd,Zn", "--out", tmp_path / "new", "--report", tmp_path / "r")
    assert refused.exit_code == 2
    assert "--report is of one quantity" in " ".join(refused.output.split())
    assert "--no-fit" not in refused.output
