"""Reports by left-out predictions: where error bars hold, in which geometry, and what a recalibration changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import norm

import cagp
from cagp import InputError
from cagp.fit_report import write_check_report, write_fit_report
from cagp.left_out import Geometry
from cagp.reports.by_place import divisions
from cagp.reports.distances import readable
from cagp.reports.held_out import BeforeAndAfter, predict_held_out
from cagp.reports.inputs import check_inputs
from cagp.reports.judgement import remedies_for_data
from cagp.reports.model_section import facts_table
from cagp.reports.names import Names
from cagp.transforms import Log
from reports.pages import RANDOM, Page, prior, smooth


def uneven(n: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Data that are rough where the first column is large: no stationary prior fits."""
    X, y = smooth(n, seed=seed, noise=0.0)
    return X, y + np.where(X[:, 0] > 0.7, 0.5, 0.02) * RANDOM(seed + 1).normal(size=n)


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> tuple[cagp.Model, cagp.fit_report.CheckReport, Page]:
    model = prior().condition(*uneven(), cagp.Cholesky())
    check = write_check_report(model, tmp_path_factory.mktemp("check"), names=Names(target_unit="K"))
    return model, check, Page(check.path)


def test_a_recalibration_is_tried_and_told(
    rejected: tuple[cagp.Model, cagp.fit_report.CheckReport, Page],
) -> None:
    model, check, page = rejected
    assert not check.calibrated
    assert check.data is not None
    np.testing.assert_allclose(check.data.z, model.left_out().z)
    assert check.recalibrated is not None
    assert check.recalibrated.right
    assert "Recalibration (--recalibrate) was tried here, and it mends the error bars" in check.verdict
    assert check.advice[0].startswith("Recalibrate: `cagp fit … --recalibrate`, in Python model.recalibrated(). Tried")
    assert any("Another kernel" in sentence and "Not tried here" in sentence for sentence in check.advice)
    assert any("--mean linear" in sentence and "Not tried here" in sentence for sentence in check.advice)
    assert "no observation judges itself" in page.text
    assert "in the training data, without rows that were left out for missing values." in page.text
    held = page.row("recalibration", "50% intervals hold")
    inside = (np.abs(check.data.z) <= norm.ppf(0.75)).mean()
    assert held[1] == f"{100 * inside:.1f}%"
    assert abs(float(held[2].rstrip("%")) - 50) < 6
    assert page.row("recalibration", "RMSE")[1] == page.row("recalibration", "RMSE")[2]
    pictures = {path.stem for path in check.path.parent.glob("*.png")}
    assert pictures == {"simulated", "calibration", "by-place", "coverage-map", "recalibration"}


def test_quarters_by_roughness_and_distance(
    rejected: tuple[cagp.Model, cagp.fit_report.CheckReport, Page],
) -> None:
    model, check, page = rejected
    X, y = model.X.numpy(), model.y.numpy()
    near = np.argsort(cdist(X, X), axis=1, kind="stable")
    roughness = np.array([y[row[1:11]].std(ddof=1) for row in near])
    distance = np.sort(cdist(X, X), axis=1)[:, 1]
    assert check.data is not None
    for name, values in (("by-roughness", roughness), ("by-distance", distance)):
        rows = page.tables[name][1:]
        assert [int(row[1]) for row in rows] == [125] * 4
        order = np.argsort(values)
        for row, part in zip(rows, np.array_split(order, 4), strict=True):
            z = check.data.z[part]
            before, after = row[2].split(" → ")
            assert float(before) == pytest.approx(np.sqrt(np.mean(z**2)), rel=0.06)
            assert 0.6 < float(after) < 1.5
            for cell, level in zip(row[3:], (0.5, 0.8, 0.95), strict=True):
                inside = (np.abs(z) <= norm.ppf((1 + level) / 2)).mean()
                assert float(cell.split("%")[0]) == pytest.approx(100 * inside, abs=0.1)
    assert page.tables["by-roughness"][0][0] == "roughness [K]"
    spreads = [float(row[2].split(" → ")[0]) for row in page.tables["by-roughness"][1:]]
    assert spreads[-1] > 3 * spreads[0]  # rough places have errors that are too large


def judged_by(model: cagp.Model, **options: object) -> BeforeAndAfter:
    """What the reports judge, without a page."""
    given = check_inputs(model, None, options.get("holdout"), options.get("like"), None)
    found = predict_held_out(given, 0)
    assert found is not None
    return found


def test_places_that_are_all_alike_are_not_divided() -> None:
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2)
    model = prior().condition(grid, RANDOM(0).normal(size=144), cagp.Cholesky())
    assert [each.by for each in divisions(judged_by(model).before, model.components[0], Names())] == ["roughness"]


def test_distances_have_a_unit_that_a_reader_knows() -> None:
    X = RANDOM(2).random((80, 2)) * [120, 300] - [60, 0]
    sphere = np.deg2rad(X).T
    unit = np.stack([np.cos(sphere[0]) * np.cos(sphere[1]), np.cos(sphere[0]) * np.sin(sphere[1]), np.sin(sphere[0])])
    arcs = 6371 * np.arccos(np.clip(unit.T @ unit, -1, 1))
    plane = np.linalg.norm(X[:, None] - X, axis=-1)
    short, long = (cagp.Geographic(cagp.Matern32(scale), radius=6371.0) for scale in (500.0, 4000.0))
    degrees, metres = Names(feature_units=("°N", "°E")), Names(feature_units=("m", "m"))
    for kernel, names, between, wanted in (
        (short + 2.0 * long, degrees, arcs, "km"),
        (cagp.Geographic(cagp.RBF(0.2)), degrees, arcs, "km"),
        (cagp.Matern32(20.0), metres, plane, "m"),
        (cagp.Matern32((20.0, 20.0)), Names(), plane, "unit of the columns"),
        (cagp.Matern32((20.0, 30.0)), metres, None, "lengthscales"),
        (cagp.Matern32(20.0), Names(feature_units=("m", "s")), None, "lengthscales"),
    ):
        component = cagp.Prior(kernel, noise_variance=0.1).condition(X, X[:, 0]).components[0]
        given = (
            Geometry(component).distance_of(torch.arange(1, 80)[:, None], torch.zeros(79, dtype=torch.int64)).numpy()
        )
        found, unit_of = readable(given, component, names)
        assert unit_of == wanted
        np.testing.assert_allclose(found, given if between is None else between[0, 1:], rtol=1e-3)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(30)], ids=repr)
@pytest.mark.usefixtures("words_only")
def test_the_geometry_of_other_points(solver: cagp.Solver, tmp_path: Path) -> None:
    X, y = smooth(200)
    model = prior().condition(X, y, solver)
    like = 0.5 * RANDOM(1).random((50, 2)) + 1
    found = judged_by(model, like=like)
    assert found.after is not None
    np.testing.assert_allclose(found.judged.z, model.left_out(like=like, n=200).z)
    assert "stands in for a point to be predicted" in found.judged.how
    with pytest.raises(InputError, match="leave one of them out"):
        write_check_report(model, tmp_path, like=like, holdout=(like, like[:, 0]))
    with pytest.raises(InputError, match="like"):
        write_fit_report(model, tmp_path, like=like[:, :1])


@pytest.mark.usefixtures("words_only")
def test_a_recalibrated_model_is_judged_as_it_predicts(tmp_path: Path) -> None:
    X, y = uneven(700)
    plain = prior().condition(X[:500], y[:500], cagp.Cholesky())
    model = plain.recalibrated()
    found = judged_by(model, holdout=(X[500:], y[500:]))
    expected = norm.ppf(model.predict(X[500:]).observed().cdf(y[500:]))
    np.testing.assert_allclose(found.judged.z, expected, atol=1e-6)
    np.testing.assert_allclose(found.before.z, judged_by(plain, holdout=(X[500:], y[500:])).judged.z)
    assert found.judged.diagnosis.right
    assert not found.before.diagnosis.right
    check = write_check_report(model, tmp_path)
    assert check.calibrated
    assert check.data is check.recalibrated
    assert not check.advice
    page = Page(check.path)
    assert "The model is recalibrated. Without that, the error" in page.text
    assert "no observation judges itself" in page.text
    assert "in the training data, without rows that were left out for missing values." in page.text


@pytest.mark.usefixtures("words_only")
def test_a_conformal_model_is_judged_as_it_predicts(tmp_path: Path) -> None:
    X, y = uneven(400)
    model = prior().condition(X[:200], y[:200], cagp.Cholesky()).recalibrated(calibration=(X[200:230], y[200:230]))
    assert "The conformal step" in judged_by(model).judged.how
    page = Page(write_fit_report(model, tmp_path, holdout=(X[230:], y[230:])))  # 95% intervals are infinite
    assert "∞" in page.row("recalibration", "width of the 95% interval")[2]
    assert "nan" not in page.text.lower().split()


def test_held_out_data_that_reject_the_model_try_a_recalibration() -> None:
    X, y = uneven(700)
    model = prior().condition(X[:500], y[:500], cagp.NearestNeighbours(40))
    found = judged_by(model, holdout=(X[500:], y[500:]))
    assert found.judged is found.before
    assert not found.before.diagnosis.right
    assert found.after is not None
    learned = model.recalibrated(like=X[500:], n=500)
    expected = learned.predict(X[500:]).observed().cdf(y[500:])
    np.testing.assert_allclose(norm.cdf(found.after.z), expected, atol=1e-6)
    assert "only training observations were used" in found.how
    assert any("More neighbours than 40" in sentence for sentence in remedies_for_data(found, model))
    X, y = smooth(300)
    fine = judged_by(prior().condition(X[:200], y[:200]), holdout=(X[200:], y[200:]))
    assert fine.after is None
    assert "no sign that it is needed" in fine.how


@pytest.mark.parametrize(
    ("mean", "constant", "trend"),
    [(cagp.Zero(), True, True), (cagp.Constant(), False, True), (cagp.Polynomial(1), False, False)],
)
def test_a_bias_asks_for_the_mean_that_a_model_does_not_have(mean: cagp.Mean, constant: bool, trend: bool) -> None:
    X, y = smooth(120)
    model = cagp.Prior(cagp.Matern52(0.3), noise_variance=0.01, mean=mean).condition(X[:60], y[:60])
    found = judged_by(model, holdout=(X[60:], y[60:] + 0.5))
    assert "biased" in found.judged.diagnosis.failures
    said = " ".join(remedies_for_data(found, model))
    assert ("Constant()" in said) == constant
    assert ("Polynomial(1)" in said) == trend


@pytest.mark.usefixtures("words_only")
def test_few_observations_do_not_recalibrate_one_another(tmp_path: Path) -> None:
    X, y = smooth(60)
    check = write_check_report(prior(1e-5).condition(X, y, cagp.Cholesky()), tmp_path)
    assert check.recalibrated is None
    assert "Recalibration was not tried: 60 left-out observations are too few" in check.verdict
    assert any("multiply the standard deviations" in sentence for sentence in check.advice)
    small = judged_by(prior().condition(X[:22], y[:22], cagp.Cholesky()).recalibrated())
    assert "the error bars without recalibration were judged" in small.judged.how


def test_a_mixture_is_judged_as_it_predicts() -> None:
    X, y = uneven(400)
    parts = [cagp.Prior(cagp.Matern32(scale), noise_variance=0.01).condition(X[:300], y[:300]) for scale in (0.3, 1.0)]
    mixture = parts[0].replace(components=[each.components[0] for each in parts], weights=[0.3, 0.7])
    model = mixture.recalibrated()
    found = judged_by(model, holdout=(X[300:], y[300:]))
    for judged, predicting in ((found.before, mixture), (found.judged, model)):
        np.testing.assert_allclose(judged.z, predicting.predict(X[300:]).observed().normal_score(y[300:]), atol=1e-9)
    assert found.judged is found.after
    assert len(judged_by(model).judged) == 300
    (made_of,) = [text for name, text in facts_table(model, Names().filled_in(model)).rows if name == "model"]
    assert made_of.startswith("a mixture of 2 priors; the heaviest is described here; recalibrated by ")


@pytest.mark.usefixtures("words_only")
def test_a_transformed_model_is_judged_in_the_unit_of_the_observations(tmp_path: Path) -> None:
    X, y = uneven(300)
    plain = prior().condition(X[:200], y[:200], cagp.Cholesky())
    model = plain.replace(transform=Log())
    names = Names(target="rain", target_unit="mm")
    check = write_check_report(model, tmp_path, holdout=(X[200:], np.exp(y[200:])), names=names)
    expected = write_check_report(plain, tmp_path / "plain", holdout=(X[200:], y[200:]))
    assert check.data is not None
    assert expected.data is not None
    np.testing.assert_allclose(check.data.z, expected.data.z)
    page = Page(check.path)
    assert page.row("facts", "target")[1].startswith("rain: ")
    rmse = np.sqrt(np.square(np.exp(y[200:]) - model.predict(X[200:]).observed().mean).mean())
    assert float(page.row("scores", "RMSE")[1].removesuffix(" mm")) == pytest.approx(rmse, rel=5e-3)
    assert check.data.failures == ("heavy tails",)
    assert not any("transformed target" in sentence for sentence in check.advice)
    assert any("transformed target" in sentence for sentence in expected.advice)
