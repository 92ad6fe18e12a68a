"""The report of a fit and the calibration check: numbers against independent routes, words against misfits."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import kstest, norm

import cagp
from cagp import InputError, hyperparameters
from cagp.calibration import Assessment, assess
from cagp.fit_report import Names, write_check_report, write_fit_report
from cagp.left_out import Correlation, Gaps
from cagp.recalibration.diagnosis import diagnose, effective_size, joint_verdict, visible
from cagp.reports import by_place, model_section, prediction_pictures
from cagp.reports.computational_share import measure, sample_points
from cagp.reports.held_out import HeldOut, leave_out, left_out_data
from cagp.reports.judgement import judgement
from cagp.reports.names import hyperparameters as named
from cagp.reports.page import new_figure, png
from cagp.story import Story
from cagp.support.advice import Advice
from cagp.support.convert import array
from cagp.support.numbers import datum, number, percent, shortened, with_error
from cagp.transforms import Log
from problems import make_problem
from reports.pages import RANDOM, Page, prior, smooth
from solver_cases import CASES


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[hyperparameters.FitResult, cagp.Model, Path]:
    X, y = smooth()
    fit = hyperparameters.fit(prior(), X, y, n_restarts=0)
    model = fit.prior.condition(X, y, cagp.GaussSeidel(5))
    names = Names(("depth", "age"), "flow", ("m", "a"), "l/s")
    report = write_fit_report(model, tmp_path_factory.mktemp("fit"), fit=fit, names=names)
    return fit, model, report.path


def test_the_page_stands_alone(fitted: tuple[hyperparameters.FitResult, cagp.Model, Path]) -> None:
    page = Page(fitted[2])
    assert page.sections == ["model", "parameters", "predictions", "calibration", "computation"]
    assert all(link.startswith(("data:", "#")) or link == "map.html" for link in page.links)
    embedded = {hashlib.sha256(base64.b64decode(image.split(",", 1)[1])).hexdigest() for image in page.images}
    beside = {hashlib.sha256(path.read_bytes()).hexdigest() for path in fitted[2].parent.glob("*.png")}
    assert len(embedded) == 5
    assert embedded == beside
    assert "nan" not in page.text.lower().split()
    assert "<script" not in page.raw


def test_what_was_fitted_is_named(fitted: tuple[hyperparameters.FitResult, cagp.Model, Path]) -> None:
    fit, _, path = fitted
    page = Page(path)
    assert page.row("facts", "data")[1] == "120 observations, 2 columns"
    assert "l/s" in page.row("facts", "target")[1]
    assert "Matérn 3/2" in page.row("facts", "kernel")[1]
    assert "5 iterations" in page.row("facts", "solver")[1]
    assert page.row("facts", "cagp")[1] == cagp.__version__
    assert [row[0] for row in page.tables["columns"][1:]] == ["depth", "age"]
    assert fit.standard_errors is not None
    value, error = fit.prior.kernel.lengthscale, fit.standard_errors["kernel.lengthscale"]
    shown = page.row("hyperparameters", "lengthscale")[1].split()
    assert float(shown[0]) == pytest.approx(value, abs=0.1 * error)
    assert float(shown[2]) == pytest.approx(error, rel=0.06)
    assert page.row("hyperparameters", "noise variance")[2] == "fitted"
    assert "(l/s)²" in page.row("hyperparameters", "noise variance")[1]


def left_out(model: cagp.Model, seed: int = 0) -> HeldOut:
    """Left-out observations as the reports judge them."""
    return left_out_data(model, leave_out(model, None, seed))


@pytest.mark.usefixtures("words_only")
def test_scores_are_those_of_dense_leave_one_out(tmp_path: Path) -> None:
    X, y = smooth()
    model = prior().condition(X, y, cagp.Cholesky())
    found = left_out(model)
    groups = np.arange(len(y))[:, None]
    k = lambda A, B: (1 + np.sqrt(3) * cdist(A, B) / 0.5) * np.exp(-np.sqrt(3) * cdist(A, B) / 0.5)  # noqa: E731
    mean, variance = np.empty(len(y)), np.empty(len(y))
    for group in groups:
        kept = np.setdiff1d(np.arange(len(y)), group)
        V = k(X[group], X[kept])
        solved = np.linalg.solve(k(X[kept], X[kept]) + 0.01 * np.eye(len(kept)), V.T)
        mean[group] = solved.T @ y[kept]
        variance[group] = 1.0 + 0.01 - (V.T * solved).sum(axis=0)
    np.testing.assert_allclose(found.prediction.mean, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.prediction.std, np.sqrt(variance), rtol=1e-8)
    page = Page(write_fit_report(model, tmp_path))
    rmse = np.sqrt(np.mean((y - mean) ** 2))
    assert float(page.row("scores", "RMSE")[1]) == pytest.approx(rmse, rel=5e-3)
    nll = -norm.logpdf(y, mean, np.sqrt(variance)).mean()
    assert float(page.row("scores", "NLL (log score)")[1].replace("−", "-")) == pytest.approx(nll, rel=5e-3)
    inside = (np.abs(y - mean) <= norm.ppf(0.95) * np.sqrt(variance)).mean()
    assert page.row("coverage", "90%")[1] == f"{100 * inside:.1f}%"


def test_the_computational_share_holds_the_truth() -> None:
    X, y = smooth(80)
    model = prior().condition(X, y, cagp.GaussSeidel(3))
    found = measure(model, seed=0)
    points = array(sample_points(model, 40, 0))
    exact = array(prior().condition(X, y, cagp.Cholesky()).predict(points).variance)
    for shares, iterations in ((found.now, 3), (found.later, 13)):
        variance = array(prior().condition(X, y, cagp.GaussSeidel(iterations)).predict(points).variance)
        truth = 1 - exact / variance
        assert shares is not None
        assert (shares.lower <= truth + 1e-9).all()
        assert (shares.upper >= truth - 1e-9).all()
        np.testing.assert_allclose(shares.estimate, truth, atol=0.05)
    assert found.std is not None
    np.testing.assert_allclose(found.std, array(model.predict(points).std), rtol=1e-10)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_more_work_goes_on_from_the_model(case: object) -> None:
    """The longer run passes through the model's own posterior, so one run measures both; and it gains."""
    problem = make_problem()
    model = problem.prior.condition(problem.X, problem.y, case.solver)  # type: ignore[attr-defined]
    found = measure(model, seed=0)
    if found.std is None:
        assert "exactly" in found.sentences[0]
        assert isinstance(model.prepared.picked or model.solver, cagp.Cholesky)
        return
    points = sample_points(model, len(found.std), 0)
    np.testing.assert_allclose(found.std, array(model.predict(points).std), rtol=1e-7)
    assert found.later_std is not None
    if model.solver.calibrated:
        assert (found.later_std <= found.std * (1 + 1e-9)).all()
    assert found.now is not None
    assert "%" in found.sentences[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_solver_is_checked_on_left_out_data(case: object) -> None:
    problem = make_problem()
    model = problem.prior.condition(problem.X, problem.y, case.solver)  # type: ignore[attr-defined]
    found = left_out(model)
    assert len(found) == 40
    assert np.isfinite(found.scores.nll)


def test_solvers_that_name_points_follow_the_points_that_stay() -> None:
    kept = np.array([0, 2, 3, 5])
    assert cagp.Subset(indices=(5, 1, 2)).for_points(kept, 6) == cagp.Subset(indices=(3, 1))
    assert cagp.Subset(size=5).for_points(kept, 6) == cagp.Subset(size=4)
    assert cagp.GaussSeidel(order=(5, 4, 3, 2, 1, 0)).for_points(kept, 6) == cagp.GaussSeidel(order=(3, 2, 1, 0))
    chain = cagp.Chain([cagp.Subset(size=6), cagp.CalibratedCG(2)])
    assert chain.for_points(kept, 6) == cagp.Chain([cagp.Subset(size=4), cagp.CalibratedCG(2)])


def test_exact_solvers_have_nothing_to_gain() -> None:
    for solver in (cagp.Cholesky(), cagp.NearestNeighbours(9), cagp.Subset(size=9), cagp.RandomDirections(9)):
        assert solver.description(9).exact
        assert isinstance(solver, cagp.Cholesky) or not solver.description(10).exact


# --- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "words"), [(1e-4, "too narrow"), (0.25, "too wide"), (0.01, "No sign that the error bars are wrong")]
)
@pytest.mark.usefixtures("words_only")
def test_misfits_are_found(noise: float, words: str, tmp_path: Path) -> None:
    X, y = smooth(250, seed=3)
    check = write_check_report(prior(noise).condition(X, y, cagp.Cholesky()), tmp_path)
    assert words in check.verdict
    assert check.calibrated == (noise == 0.01)
    assert check.method is not None
    assert check.method.right
    assert words in check.summary()
    page = Page(check.path)
    assert check.verdict in page.text
    assert ("What to do" in page.text) == (not check.calibrated)
    assert not check.suspicious
    assert f'class="{"right" if check.calibrated else "wrong"}" id="verdict"' in page.raw


def between(seed: int = 9) -> np.ndarray:
    """z whose 50% intervals hold more than chance explains, but that no test rejects."""
    z = RANDOM(seed).standard_t(3, 206)
    return 0.98 * z / z.std(ddof=1)


@pytest.mark.usefixtures("words_only")
def test_suspicious_is_neither_right_nor_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = diagnose(between())
    outside = [c.level for c in found.coverage if not c.inside]
    assert outside
    assert found.right
    assert found.suspicious
    assert found.state == "suspicious"
    assert found.signs == ("heavy tails",)  # of the right spread, with a narrow centre
    quantiles = norm.ppf((np.arange(100) + 0.5) / 100)
    assert diagnose(1.21 * quantiles).signs == ("too narrow",)
    assert diagnose(0.8 * quantiles).signs == ("too wide",)
    X, y = smooth(60)
    model = prior().condition(X[:50], y[:50])
    # observations at those distances from their predictions
    X_new = RANDOM(3).random((206, 2))
    post = model.predict(X_new).observed()
    monkeypatch.setattr("cagp.reports.held_out.correlation_of", lambda *a: None)
    check = write_check_report(model, tmp_path, holdout=(X_new, post.mean + post.std * between()))
    assert (check.calibrated, check.suspicious) == (True, True)
    assert check.verdict.startswith("Suspicious: against data, the ")
    assert f"{100 * outside[0]:g}%" in check.verdict
    assert "more rows would tell" in check.verdict
    page = Page(check.path)
    assert 'class="suspicious" id="verdict"' in page.raw
    assert "What to do" in page.text
    assert "  - Check with more rows" in check.summary()
    assert any(row[-1].startswith("no, ") for row in page.tables["coverage"][1:])


def test_no_sign_says_what_could_have_been_seen() -> None:
    """Errors that many times too large are rejected about four times in five."""
    found = diagnose(norm.ppf((np.arange(206) + 0.5) / 206))
    assert found.state == "right"
    factor = visible(found.worth)
    assert f"errors that are {number(factor)} times as large as promised" in found.sentence
    rejected = [not diagnose(factor * RANDOM(seed).standard_normal(206)).right for seed in range(200)]
    assert 0.7 < np.mean(rejected) < 0.92


def test_a_page_never_calls_right_what_its_table_denies() -> None:
    for seed in range(200):
        found = diagnose(RANDOM(seed).standard_normal(80) * RANDOM(seed).uniform(0.9, 1.12))
        if all(c.inside for c in found.coverage):
            assert not found.suspicious
        else:
            assert "no sign" not in found.sentence


@pytest.mark.usefixtures("words_only")
def test_a_method_that_is_not_calibrated_is_found(tmp_path: Path) -> None:
    X, y = smooth(60)
    check = write_check_report(prior().condition(X, y, cagp.ConjugateGradient(5)), tmp_path)
    assert check.method is not None
    assert check.method.failures == ("too wide",)
    assert not check.calibrated
    assert any("CalibratedCG" in sentence for sentence in check.advice)


def test_bias_and_outliers_are_told_from_width() -> None:
    z = RANDOM(0).standard_normal(500)
    assert diagnose(z).right
    assert diagnose(z + 0.5).failures == ("biased",)
    assert diagnose(1.5 * z).failures == ("too narrow",)
    assert diagnose(0.6 * z).failures == ("too wide",)
    spiked = z.copy()
    spiked[:25] *= 8
    assert diagnose(spiked).failures == ("heavy tails",)
    alone = z.copy()
    alone[:2] = 16, -9
    found = diagnose(alone)
    assert found.failures == ("outliers",)
    assert "2 of the errors lie far outside of them, up to 16 standard deviations" in found.sentence
    assert diagnose(np.append(1.3 * z, 16)).failures != ("outliers",)
    assert diagnose(np.append(z, -6000)).failures == ("outliers",)  # no bias: one value moves the mean
    assert "biased" in diagnose(np.append(z + 0.5, -6000)).failures
    flat = np.sqrt(3) * RANDOM(1).uniform(-1, 1, 2000)
    assert diagnose(flat).failures == ("wrong shape",)


def test_independent_values_are_tested_as_assess_does() -> None:
    z = 1.1 * RANDOM(5).standard_normal(80) + 0.1
    ours, theirs = Assessment(z, worth=effective_size(80, None)), assess(z)
    for name in ("mean_p_value", "std_p_value", "p_value", "coverage_p_value"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert theirs.p_value == pytest.approx(kstest(norm.cdf(z), "uniform").pvalue)
    assert theirs.coverage_p_value == pytest.approx(kstest(2 * norm.cdf(np.abs(z)) - 1, "uniform").pvalue)


def test_correlated_errors_count_for_less() -> None:
    """The variances of the mean of z and of z² over many draws are those of the effective numbers."""
    X = RANDOM(0).random((30, 1))
    R = np.exp(-cdist(X, X) / 0.3)
    off = R[np.triu_indices(30, 1)]
    worth = effective_size(30, Correlation(off.mean(), np.square(off).mean(), len(off)))
    z = RANDOM(1).standard_normal((20_000, 30)) @ np.linalg.cholesky(R).T
    assert z.mean(axis=1).var() == pytest.approx(1 / worth.mean, rel=0.05)
    assert np.square(z).mean(axis=1).var() == pytest.approx(2 / worth.spread, rel=0.05)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.GaussSeidel(3)], ids=repr)
def test_right_models_are_rarely_blamed(solver: cagp.Solver) -> None:
    wrong = 0
    for seed in range(30):
        wrong += not left_out(prior().condition(*smooth(60, seed=seed), solver), seed).diagnosis.right
    assert wrong <= 2  # at a family-wise level of 1%, 3 of 30 have a probability below 0.004


# --- all kinds of data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_tiny_data(d: int, tmp_path: Path) -> None:
    X, y = smooth(d, 1)
    model = prior().condition(X, y)
    page = Page(write_fit_report(model, tmp_path))
    assert ("coverage" in page.tables) == (d > 1)
    assert write_check_report(model, tmp_path).calibrated


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.ConjugateGradient(4)], ids=repr)
def test_constant_observations(solver: cagp.Solver, tmp_path: Path) -> None:
    X, _ = smooth(30, 1)
    page = Page(write_fit_report(prior(mean=cagp.Constant()).condition(X, np.full(30, 2.5), solver), tmp_path))
    assert "All observations are equal" in page.text


@pytest.mark.usefixtures("words_only")
def test_one_held_out_observation(tmp_path: Path) -> None:
    X, y = smooth(50)
    model = prior().condition(X, y, dtype="float32")
    near = (X[:1] + 0.01, y[:1])
    check = write_check_report(model, tmp_path, holdout=near)
    assert check.calibrated
    assert "Too few to tell" in check.verdict
    assert "single precision" in Page(write_fit_report(model, tmp_path, holdout=near)).text
    far = write_check_report(model, tmp_path, holdout=(X[:1], y[:1] + 10))
    assert not far.calibrated
    assert "too narrow" in far.verdict


@pytest.mark.usefixtures("words_only")
def test_held_out_data_with_their_own_noise(tmp_path: Path) -> None:
    X, y = smooth(130)
    noise = np.geomspace(1e-3, 1.0, 130)
    y = y + np.sqrt(noise) * np.random.default_rng(1).normal(size=130)
    model = cagp.Prior(cagp.Matern32(0.5), noise_variance=noise[::2]).condition(X[::2], y[::2], "cholesky")
    post = model.predict(X[1::2])
    check = write_check_report(model, tmp_path, holdout=(X[1::2], y[1::2], noise[1::2]))
    assert check.data is not None
    np.testing.assert_allclose(check.data.z, (y[1::2] - post.mean) / np.sqrt(post.variance + noise[1::2]))
    with pytest.raises(InputError, match="holdout noise_variance has shape"):
        write_check_report(model, tmp_path, holdout=(X[1::2], y[1::2], noise))


@pytest.mark.usefixtures("words_only")
def test_held_out_data_are_scored_by_the_model_itself(tmp_path: Path) -> None:
    X, y = smooth(130)
    model = prior().condition(X[:100], y[:100], cagp.GaussSeidel(4))
    page = Page(write_fit_report(model, tmp_path, holdout=(X[100:], y[100:])))
    rmse = np.sqrt(np.mean((model.predict(X[100:]).mean - y[100:]) ** 2))
    assert float(page.row("scores", "RMSE")[1]) == pytest.approx(rmse, rel=5e-3)
    assert page.row("scores", "points")[1] == "30"


@pytest.mark.usefixtures("words_only")
def test_training_rows_are_no_held_out_data(tmp_path: Path) -> None:
    X, y = smooth(130)
    model = prior().condition(X[:100], y[:100])
    for rows in (slice(0, 100), slice(40, 130)):
        with pytest.raises(InputError, match=r"are training rows.*hold rows out"):
            write_check_report(model, tmp_path / "x", holdout=(X[rows], y[rows]))
    with pytest.raises(InputError, match="60 of the 90 rows"):
        write_fit_report(model, tmp_path / "x", holdout=(X[40:], y[40:]))
    assert not (tmp_path / "x").exists()
    order = RANDOM(0).permutation(np.arange(95, 130))
    check = write_check_report(model, tmp_path, holdout=(X[order], y[order]))
    assert check.data is not None
    new = order[order >= 100]
    post = model.predict(X[new]).observed()
    np.testing.assert_allclose(check.data.z, (y[new] - post.mean) / post.std)
    assert "5 of the 35 rows given are training rows" in Page(check.path).text
    assert "5 of the 35 rows are training rows" in check.summary()
    again = y[:60] + 0.1 * RANDOM(1).normal(size=60)  # measured once more at the same places: new data
    assert len(write_check_report(model, tmp_path, holdout=(X[:60], again)).data.z) == 60  # type: ignore[union-attr]


@pytest.mark.usefixtures("words_only")
def test_the_worst_observations_can_be_found(tmp_path: Path) -> None:
    X, y = smooth(140, 8)
    names = Names([f"a long name of a column, number {i} (of eight, in kg per cubic metre)" for i in range(8)])
    model = prior().condition(X[:100], y[:100], cagp.Cholesky())
    post = model.predict(X[100:]).observed()
    z = (y[100:] - post.mean) / post.std
    holdout = (np.vstack([X[:3], X[100:]]), np.concatenate([y[:3], y[100:]]))  # three training rows are left out
    points = Page(write_check_report(model, tmp_path, holdout=holdout, names=names).path).tables["points"]
    assert len(set(points[0])) == len(points[0]) == 12
    assert max(map(len, points[0])) <= 20
    assert [int(row[0]) for row in points[1:]] == (np.argsort(-np.abs(z))[:10] + 3).tolist()
    for row in points[1:]:
        assert row[1:9] == [datum(v) for v in holdout[0][int(row[0])]]
    left_out = Page(write_check_report(model, tmp_path, names=names).path).tables["points"]
    for row in left_out[1:]:
        assert row[1:9] == [datum(v) for v in X[int(row[0])]]


def test_of_many_columns_the_relevant_are_shown(tmp_path: Path) -> None:
    X, y = smooth(60, 14)
    scales = np.full(14, 50.0)
    scales[[2, 5, 13]] = 0.5
    model = cagp.Prior(cagp.Matern32(tuple(scales)), noise_variance=0.01).condition(X, y)
    page = Page(write_check_report(model, tmp_path).path)
    assert {"x2", "x5", "x13"} < set(page.tables["points"][0])
    assert len(page.tables["points"][0]) == 14
    assert "Of 14 columns, the 10 that matter most" in page.text


def test_labels_do_not_touch() -> None:
    """Long names are cut in figures, and titles of one row stay clear of the labels of the row above."""
    names = Names(["Cement (component 1)(kg in a m^3 mixture)"], "Concrete compressive strength(MPa, megapascals)")
    assert names.label(0) == "Cement…"
    assert names.target_label == "Concrete compressive strength…"
    figure, axes = new_figure(2, 2, 3.9, 3.1)
    for ax in axes.flat:
        ax.set(xlabel="level", title="title", ylabel=names.target_label)
    png(figure)
    (upper, _), (lower, _) = axes
    gap = upper.xaxis.label.get_window_extent().y0 - lower.title.get_window_extent().y1
    assert gap > 0.5 * lower.title.get_window_extent().height
    first, second = (ax.yaxis.label.get_window_extent() for ax in axes[:, 0])
    assert first.y0 > second.y1


def test_short_names_stay_apart() -> None:
    assert shortened(["temperature", "age"], 20) == ["temperature", "age"]
    assert shortened(["Cement (component 1)(kg in a m^3 mixture)"], 20) == ["Cement…"]
    for names in (["rainfall at station 1", "rainfall at station 2"], ["x" * 30 + c + "x" * 30 for c in "abc"]):
        short = shortened(names, 16)
        assert len(set(short)) == len(names)
        assert max(map(len, short)) <= 16


@pytest.mark.usefixtures("words_only")
def test_the_main_finding_comes_back_with_the_page(tmp_path: Path) -> None:
    X, y = smooth(60)
    report = write_fit_report(prior().condition(X, y, cagp.GaussSeidel(3)), tmp_path)
    assert report.path == Path(report) == tmp_path / "report.html"
    assert f"{report}" == str(report.path)
    assert report.finding in Page(report).text
    assert "error bars" in report.finding
    assert "computational" in report.finding


@pytest.mark.usefixtures("words_only")
def test_the_size_of_the_test_is_told(tmp_path: Path) -> None:
    X, y = smooth(600)
    page = Page(write_check_report(prior().condition(X, y, cagp.NearestNeighbours(200)), tmp_path).path)
    assert "tested with 400 observations, not with the model's 600" in page.text
    assert "the 200 points that a prediction uses are 50% of the data, in the model 33%" in page.text
    page = Page(write_check_report(prior().condition(X[:50], y[:50], cagp.Cholesky()), tmp_path).path)
    assert "at all training inputs" in page.text
    assert "not with the model's" not in page.text
    assert "all solvers see the same draws" in page.text


@pytest.mark.usefixtures("words_only")
def test_the_prior_mean_reads_the_same_everywhere(tmp_path: Path) -> None:
    X, y = smooth(60)
    start = prior(mean=cagp.Constant())
    fit = hyperparameters.fit(start, X, y, n_restarts=0, refit_mean=True)
    page = Page(write_fit_report(fit.prior.condition(X, y), tmp_path, fit=fit, names=Names(target_unit="K")))
    shown, of, _, unit = page.row("hyperparameters", "prior mean")[1].split()
    assert (of, unit) == ("±", "K")
    value = fit.values["mean.value"]
    assert float(shown.replace("−", "-")) == pytest.approx(value, rel=0.05)
    assert page.row("facts", "prior mean")[1] == f"constant, {number(value, 4)} K"
    assert "mean.value" not in page.text
    assert "What was fitted." not in page.text
    assert with_error(0.1507, 25.0) == "0.15 ± 25"


def test_the_globe_gets_a_map_and_tables_get_slices(tmp_path: Path) -> None:
    rng = RANDOM(0)
    X = np.column_stack([rng.uniform(-60, 60, 60), rng.uniform(0, 360, 60), rng.random(60), rng.integers(0, 3, 60)])
    y = np.cos(np.deg2rad(X[:, 0])) + 0.1 * rng.normal(size=60)
    globe = cagp.Geographic(cagp.Matern32(0.3))
    page = Page(write_fit_report(cagp.Prior(globe, noise_variance=0.01).condition(X[:, :2], y), tmp_path / "two"))
    assert (tmp_path / "two" / "map.png").exists()
    assert [row[0] for row in page.tables["columns"][1:]] == ["latitude", "longitude"]
    assert "km" in page.row("hyperparameters", "lengthscale")[3]
    kernel = globe.on(0, 1) + cagp.RBF((0.5, 1.0)).on(2, 3)
    page = Page(write_fit_report(cagp.Prior(kernel, noise_variance=0.01).condition(X, y), tmp_path / "four"))
    assert {"map.png", "slices.png"} <= {path.name for path in (tmp_path / "four").iterdir()}
    assert page.row("hyperparameters", "term 2: lengthscale of x3")
    assert "Earth radii" in page.row("hyperparameters", "term 1: lengthscale")[1]


@pytest.mark.usefixtures("words_only")
def test_noise_of_each_observation(tmp_path: Path) -> None:
    X, y = smooth(40)
    noise = RANDOM(0).uniform(0.005, 0.02, 40)
    model = cagp.Prior(cagp.Matern32(0.5), noise_variance=noise).condition(X, y)
    np.testing.assert_allclose(left_out(model).z, model.left_out().z)
    page = Page(write_fit_report(model, tmp_path, holdout=(X[:20] + 0.01, y[:20])))
    assert "their average was used" in page.text
    assert "one per observation" in page.row("facts", "noise")[1]


def test_the_same_seed_gives_the_same_report(tmp_path: Path) -> None:
    X, y = smooth(60)
    model = prior().condition(X, y, cagp.CalibratedCG(3))
    pages = [write_fit_report(model, tmp_path / name, seed=4).path.read_bytes() for name in "ab"]
    checks = [write_check_report(model, tmp_path / name, seed=4).path.read_bytes() for name in "ab"]
    assert pages[0] == pages[1]
    assert checks[0] == checks[1]


@pytest.mark.usefixtures("words_only")
def test_large_models_are_reported_without_their_own_solver(tmp_path: Path) -> None:
    """What would take minutes is done with nearest neighbours, and the page says so."""
    solver = cagp.GaussSeidel(10)
    assert solver.operations(20_000, 200).seconds(tiles=True) > 20
    assert solver.operations(500, 100).seconds(tiles=False) < 1
    X, y = smooth(100)
    model = prior().condition(X, y, cagp.GaussSeidel(10**9))
    page = Page(write_fit_report(model, tmp_path))
    assert "with NearestNeighbours() instead of GaussSeidel(iterations=1000000000), which would take long" in page.text
    assert "Drawn with NearestNeighbours()" in page.text
    assert "Not measured" in page.text


# --- words and numbers ------------------------------------------------------------------------------------------------


def test_kernels_in_words() -> None:
    names = Names(("a", "b"), "y", ("m", "s"), "K")
    assert names.features is not None
    kernel = 2.0 * cagp.Matern52((0.1, 0.2)) + cagp.RBF(3.0).on(1)
    assert kernel.in_words(names.features).startswith("[Matérn 5/2")
    assert "on b" in kernel.in_words(names.features)
    globe = cagp.Geographic(cagp.Matern32(300.0), radius=6371.0)
    assert globe.in_words(names.features).endswith("chordal distance on the globe, in kilometres")
    metres = cagp.Geographic(cagp.Matern32(3e5), radius=6378137.0)
    assert metres.in_words(names.features).endswith("in metres")
    assert next(p.unit for p in named(cagp.Prior(metres), names)) == "m"
    assert kernel.formula(number) == (
        "2.00 · (1 + √5 r + 5r²/3) exp(−√5 r), r² = Σⱼ (xⱼ − x′ⱼ)² / ℓⱼ² + 1.00 · exp(−r²/2), r = |x − x′| / 3.00"
    )
    found = {p.name: (p.label, p.unit) for p in named(cagp.Prior(kernel), names)}
    assert found["kernel.kernels[0].lengthscale[1]"] == ("term 1: lengthscale of b", "s")
    assert found["kernel.kernels[1].kernel.lengthscale"] == ("term 2: lengthscale", "s")
    assert found["kernel.kernels[1].kernel.variance"][1] == "K²"
    fit = hyperparameters.fit(cagp.Prior(kernel), RANDOM(0).random((15, 2)), RANDOM(1).random(15), n_restarts=0)
    assert set(found) == set(fit.values)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1234.5, "1,230"), (0.012345, "0.0123"), (-2.5, "−2.50"), (9.999, "10.0"), (3e-9, "3.00 · 10⁻⁹")],
)
def test_numbers_are_readable(value: float, text: str) -> None:
    assert number(value) == text


def test_values_of_the_data_keep_their_form() -> None:
    assert [datum(v) for v in (3.0, 0.52, -1200.0, 0.02, 1e-9)] == ["3", "0.52", "−1,200", "0.02", "1.000 · 10⁻⁹"]


def test_values_are_rounded_to_their_errors() -> None:
    assert with_error(0.30123, 0.0123) == "0.301 ± 0.012"
    assert with_error(12345.6, 234.5) == "12,300 ± 230"
    assert with_error(1.0, np.inf) == "1.00 ± unlimited"
    assert percent(0.00001) == "below 0.01%"
    assert percent(0.99999) == "almost 100%"


@pytest.mark.usefixtures("words_only")
def test_warnings_speak_of_columns(tmp_path: Path) -> None:
    X, y = smooth(40)
    start = cagp.Prior(cagp.Matern32((0.5, 0.015)), noise_variance=0.01)
    fit = hyperparameters.fit(start, X, y, n_restarts=0, bounds={"kernel.lengthscale[1]": (0.01, 0.02)})
    assert "kernel.lengthscale[1]" in fit.at_bounds
    page = Page(write_fit_report(fit.prior.condition(X, y), tmp_path, fit=fit, names=Names(("a", "b"))))
    assert "The lengthscale of b ended at its upper bound 0.02" in page.text
    assert "kernel.lengthscale" not in page.text
    assert page.row("hyperparameters", "lengthscale of b")[2] == "fitted, at a bound"


@pytest.mark.usefixtures("words_only")
def test_the_story_does_not_run_off_the_page(tmp_path: Path) -> None:
    X, y = smooth(30)
    table = f"  candidate  CRPS\n  matern52   {1:.4f}"
    story = Story(f"Tried, and compared:\n{table}\nChosen: {'a mixture of these, ' * 40}and others.", ())
    model = prior().condition(X, y).replace(story=story)
    page = Page(write_fit_report(model, tmp_path)).raw
    assert table in page
    assert "Tried, and compared:" in page
    for kept_as_it_is in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL):
        assert all(line.startswith("  ") and len(line) < 120 for line in kept_as_it_is.split("\n"))


@pytest.mark.usefixtures("words_only")
def test_advice_about_flat_likelihoods_says_that_nothing_needs_to_be_done(tmp_path: Path) -> None:
    X, y = smooth(40)
    fit = hyperparameters.fit(prior(), X, y, n_restarts=0)
    found = replace(fit, advice=(Advice("flat", "kernel.lengthscale"),))
    page = Page(write_fit_report(fit.prior.condition(X, y), tmp_path, fit=found)).text
    assert "The data say next to nothing about the lengthscale" in page
    assert "nothing needs to be done there" in page
    assert "fix it, or give it bounds" not in page


@pytest.mark.usefixtures("words_only")
def test_control_characters_do_not_reach_a_page(tmp_path: Path) -> None:
    X, y = smooth(30)
    model = (
        prior()
        .condition(X, y)
        .replace(story=Story("Tried\x1b]0;title\x07 and \ud800 chosen\r\nby left-out errors.", ()))
    )
    names = Names(("a\x1b[31m", "b\u202ec"), "y\x00<script>", ("m\x07", "\x9b"), "K\x7f")
    fit = Page(write_fit_report(model, tmp_path, names=names))
    for page in (fit, Page(write_check_report(model, tmp_path, names=names).path)):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.raw)
        assert "<script" not in page.raw
    assert fit.tables["columns"][1][0] == "a�[31m"
    assert "by left-out errors." in fit.text


# --- bad input --------------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused_before_any_work(tmp_path: Path) -> None:
    X, y = smooth(20)
    model = prior().condition(X, y)
    with pytest.raises(InputError, match="3 entries for 2 columns"):
        write_fit_report(model, tmp_path / "x", names=Names(("a", "b", "c")))
    with pytest.raises(InputError, match="pair"):
        write_check_report(model, tmp_path / "x", holdout=X)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="holdout y has 19"):
        write_check_report(model, tmp_path / "x", holdout=(X, y[1:]))
    with pytest.raises(InputError, match=r"must be a cagp\.Model"):
        write_fit_report(prior(), tmp_path / "x")  # type: ignore[arg-type]
    fit = hyperparameters.fit(prior(), X, y, n_restarts=0, standard_errors=False)
    with pytest.raises(InputError, match=r"fit\.prior\.condition"):
        write_fit_report(model, tmp_path / "x", fit=fit)
    frame = pandas.DataFrame(X, columns=["a", "b"])
    with pytest.raises(InputError, match="same order"):
        write_check_report(prior().condition(frame, y), tmp_path / "x", holdout=(frame[["b", "a"]], y))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write_fit_report(model, tmp_path / "file")
    with pytest.raises(InputError, match="seed"):
        write_fit_report(model, tmp_path / "x", seed=-1)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("checked", [True, False])
def test_few_values_and_few_gaps_tell_too_little_for_a_verdict(checked: bool) -> None:
    rng = np.random.default_rng(0)
    method = diagnose(rng.normal(size=400))
    few, many = diagnose(0.9 * rng.normal(size=15)), diagnose(rng.normal(size=300))
    gaps = diagnose(0.9 * rng.normal(size=150), gaps=Gaps(np.repeat([0, 1, 2], [130, 10, 10])))
    method = method if checked else None
    for found, words in ((few, "15 held-out values"), (gaps, "150 held-out values in 3 gaps, which count like 1.3")):
        sentence, state = joint_verdict(method, found)
        assert state == "unknown"
        assert sentence.startswith(f"Too few to tell: {words}")
        assert judgement(found)["state"] == "unknown"
    assert joint_verdict(method, many)[1] == judgement(many)["state"] == "right"


@pytest.mark.parametrize("transformed", [False, True])
def test_observations_that_cannot_be_are_errors_of_the_model(transformed: bool, tmp_path: Path) -> None:
    """Beyond all that a mixture can say, and below zero under a logarithm."""
    X, y = smooth()
    y, far = (np.exp(y), -1.0) if transformed else (y, 1e3)
    own = prior().transformed(Log()) if transformed else prior()
    model = own.condition(X[:80], y[:80], cagp.Cholesky())
    model = model.replace(components=model.components * 2, weights=[0.5, 0.5])
    new = np.r_[far, y[81:]]
    check = write_check_report(model, tmp_path, holdout=(X[80:], new))
    assert check.state == "wrong"
    assert check.data is not None
    assert len(check.data.z) == len(new)
    assert ("1 of the 40 values lies where the predictions say that no observation can be" in check.summary()) == (
        transformed
    )
    assert "NaN" not in check.summary()
    some = diagnose(np.r_[np.random.default_rng(0).normal(size=100_000), np.inf])
    assert some.state == "wrong"
    assert "most error bars hold, but" in some.sentence


def test_what_was_not_checked_against_data_is_unknown(tmp_path: Path) -> None:
    X, y = smooth()
    check = write_check_report(prior().condition(X[:1], y[:1]), tmp_path)
    assert check.state == "unknown"
    assert check.verdict.startswith("The model was not checked against data")


def test_one_huge_band_does_not_hide_the_other_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skewed prices that grow with a weight that has a gap, under a transform."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.append(rng.exponential(3.0, 149), 200.0), rng.random((150, 2))])
    y = np.exp(0.3 * np.log1p(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=150))
    prior = cagp.Prior(cagp.Matern32((8.0, 1.0, 1.0), 2.0), mean=cagp.Constant(), noise_variance=0.01).transformed(
        "log"
    )
    model, shown = prior.condition(X, y), []
    monkeypatch.setattr("cagp.reports.prediction_pictures.png", lambda figure: shown.append(figure) or b"")
    pictures, _ = prediction_pictures.draw(model, Names(("weight", "x", "z"), "price"), 0)
    widest = max(float(end.max()) for end in model.predict([[100.0, 0.5, 0.5]]).observed().interval(0.95))
    bottom, top = shown[0].axes[0].get_ylim()
    assert top < 3 * y.max() < widest
    assert bottom > -y.max()
    assert "Bands are cut off where they would hide the rest" in pictures[0][2]


def test_the_axes_of_calibration_are_those_of_the_points_that_are_shown() -> None:
    truth = np.append(np.random.default_rng(0).random(4999), 1e4)
    prediction = SimpleNamespace(mean=truth, interval=lambda level: (truth - 0.1, truth + 0.1))
    held_out: Any = type("Some", (SimpleNamespace,), {"__len__": lambda own: 5000})(prediction=prediction, truth=truth)
    ax = new_figure(1, 1, 4.0, 4.0)[1][0, 0]
    by_place._predicted_against_observed(ax, held_out, Names(None, "y"))
    assert ax.get_xlim()[1] < 1.1


def test_a_mean_that_few_observations_estimate_says_so() -> None:
    rng = np.random.default_rng(0)
    X, names = rng.random((1200, 1)), Names(("x",), "y")
    prior = cagp.Prior(cagp.Matern32(0.1), mean=cagp.Constant(), noise_variance=0.1)
    for solver, few in ((cagp.NearestNeighbours(10), True), (cagp.Cholesky(), False)):
        said = model_section._mean(prior.condition(X, rng.normal(size=1200), solver), names)
        assert ("from 1,000 of the observations" in said) == few
