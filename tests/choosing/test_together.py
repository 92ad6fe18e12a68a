"""``cagp.fit`` of several quantities: together where one tells about another, and left alone where not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import cagp
from cagp.choosing import together
from cagp.cli import app
from cagp.errors import InputError, InputTypeError
from cagp.estimator import CAGPRegressor
from cagp.hyperparameters import optimise
from cagp.kernels import Coregionalised
from cagp.quantities import QuantitiesModel

QUICK: dict[str, Any] = {"kernel": "matern32", "uncertainty": False, "transform": None, "progress": False}


def fields(n: int, correlation: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places (n, 2), two fields (n, 2) of that correlation there, and observations of these."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    rows = np.column_stack([X.repeat(2, axis=0), np.tile([0.0, 1.0], n)])
    kernel = Coregionalised.of(cagp.Matern32(0.25), [[1.0, correlation], [correlation, 1.0]])
    F = (np.linalg.cholesky(kernel(rows) + 1e-9 * np.eye(2 * n)) @ rng.normal(size=2 * n)).reshape(n, 2)
    return X, F, F + 0.1 * rng.normal(size=(n, 2)) + np.array([50.0, -3.0])


def sparse(correlation: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with the first quantity in every fourth place only."""
    X, F, Y = fields(160, correlation)
    Y[np.arange(160) % 4 > 0, 0] = np.nan
    return X, F + np.array([50.0, -3.0]), Y


@pytest.fixture(scope="module")
def joint() -> QuantitiesModel:
    X, _, Y = sparse(-0.95)
    names = {"Cd": Y[:, 0], "Zn": Y[:, 1]}
    return cagp.fit(pd.DataFrame(X, columns=["east", "north"]), pd.DataFrame(names), **QUICK)


def test_a_sparse_quantity_is_predicted_from_a_dense_one(joint: QuantitiesModel) -> None:
    X, F, Y = sparse(-0.95)
    missing = np.isnan(Y[:, 0])
    alone = cagp.fit(X[~missing], Y[~missing, 0], **QUICK).predict(X[missing])
    prediction = joint.predict(X[missing])
    assert joint.together
    assert [each.target_name for each in joint.models] == ["Cd", "Zn"]
    error, before = (np.abs(each - F[missing, 0]).mean() for each in (prediction["Cd"].mean, alone.mean))
    assert error < 0.6 * before
    z = (prediction["Cd"].mean - F[missing, 0]) / prediction["Cd"].std
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6  # errors of neighbours go together
    assert joint.correlations[0, 1] == pytest.approx(-0.95, abs=0.05)


def test_the_story_tells_what_it_was_judged_by(joint: QuantitiesModel) -> None:
    for words in (
        "2 quantities at 160 places: Cd at 40 and Zn at 160.",
        "matern32, together",
        "each by itself",
        "where the others are known",
        "with all else at",
        "Correlations at one place, without noise: Cd and Zn -0.9",
        "lengthscales east",
        "Error bars",
    ):
        assert words in " ".join(joint.story.split()), words
    assert [each.weight for each in joint.record.candidates] == [0.0, 1.0]  # type: ignore[union-attr]


def test_quantities_that_have_nothing_to_do_with_each_other_are_left_alone() -> None:
    X, _, Y = sparse(0.0)
    model = cagp.fit(X, Y, **QUICK)
    assert not model.together
    assert "would not pay" in model.story
    assert [len(each.y) for each in model.models] == [40, 160]
    same = cagp.fit(X, Y[:, 1], **QUICK)
    np.testing.assert_allclose(model.predict(X[:9]).mean[:, 1], same.predict(X[:9]).mean)


def test_a_second_kernel_is_tried_where_the_first_promises_something() -> None:
    X, _, Y = sparse(0.0)
    quick = {name: value for name, value in QUICK.items() if name != "kernel"}
    told = " ".join(cagp.fit(X, Y, **quick).story.split())
    assert "Not tried, because the first kernel predicts no better together than each quantity does by itself" in told
    asked = " ".join(cagp.fit(X, Y, together=True, **quick).story.split())
    assert "short and long, together" in asked


@pytest.mark.parametrize("together", [True, False])
def test_what_is_asked_for_is_done(together: bool) -> None:
    X, _, Y = fields(40, 0.0)
    model = cagp.fit(X, Y, together=together, **QUICK)
    assert model.together is together
    assert model.names == ("y1", "y2")
    assert model.predict(X[:3]).covariance().shape == (3, 2, 2)


def test_like_with_a_gap_is_judged_by_stand_ins() -> None:
    X, _, Y = fields(150, 0.9)
    inside = (np.abs(X - 0.5) < 0.15).all(axis=1)
    model = cagp.fit(X[~inside], Y[~inside], like=X[inside], together=True, **QUICK)
    assert "standing in for the points of like" in model.story
    assert "about places next to data" in " ".join(model.story.split())
    assert np.isfinite(model.record.candidates[0].crps)


def test_each_quantity_has_the_transform_and_the_outliers_that_it_has_by_itself() -> None:
    X, _, Y = fields(120, 0.9)
    Y[:, 0] = np.exp(Y[:, 0] - 50)
    Y[17, 1] += 8
    model = cagp.fit(X, Y, kernel="matern32", uncertainty=False, together=True, progress=False)
    assert model["y1"].transform is not None
    assert model.joint is not None
    row = int(
        np.flatnonzero((model.joint.X[:, :2].numpy() == X[17]).all(axis=1) & (model.joint.X[:, 2].numpy() == 1))[0]
    )
    assert row in model.joint.prior.outliers
    assert (model.predict(X).interval(0.99)[0][:, 0] > 0).all()


def test_predictions_and_likelihoods_by_neighbours() -> None:
    X, F, Y = sparse(-0.95)
    near = {"solver": cagp.NearestNeighbours(40), "likelihood": "nearest-neighbours"}
    model = cagp.fit(X, Y, together=True, **near, **QUICK)
    left = model.left_out(n=30)
    assert {name: len(each) for name, each in left.items()} == {"y1": 30, "y2": 30}
    missing = np.isnan(Y[:, 0])
    assert np.abs(model.predict(X[missing]).mean - F[missing]).mean(axis=0)[0] < 0.5
    whole = model.left_out(n=30, whole_places=True)
    assert left["y1"].std.mean() < whole["y1"].std.mean()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"together": "yes"}, 'together must be True, False or "auto"'),
        ({"together": True, "kernel": cagp.RBF(1.0)}, "together=True, but a whole kernel was given"),
        ({"together": True, "mean": "zero"}, "together=True, but noise, a known mean"),
        ({"together": True, "rotate": True}, "together=True, but rotate=True is for models of one quantity"),
        ({"together": True, "uncertainty": True}, "together=True, but uncertainty=True is for models of one quantity"),
        ({"noise_variance": np.ones(40)}, "noise_variance of each observation is for one quantity"),
        ({"noise_variance": [1.0] * 40}, "noise_variance of each observation is for one quantity"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    X, _, Y = fields(40, 0.0)
    with pytest.raises(InputError, match=words):
        cagp.fit(X, Y, **options)


def test_observations_that_cannot_be_are_refused() -> None:
    X, _, Y = fields(40, 0.0)
    with pytest.raises(InputError, match="together=True is for several quantities"):
        cagp.fit(X, Y[:, 0], together=True)
    with pytest.raises(InputError, match=r"Y must have shape \(40, quantities\)"):
        cagp.fit(X, Y[:20])
    with pytest.raises(InputError, match="'y1' has too few observations, 0"):
        cagp.fit(X, np.where([True, False], np.nan, Y))
    with pytest.raises(InputError, match="'a' has two columns"):
        cagp.fit(X, pd.DataFrame(Y, columns=["a", "a"]))
    with pytest.raises(InputTypeError, match="Y is complex"):
        cagp.fit(X, Y.astype(complex))
    with pytest.raises(InputError, match="infinite"):
        cagp.fit(X, np.where(Y > 50, np.inf, Y))


def test_given_kernels_are_those_of_each_by_itself() -> None:
    X, _, Y = fields(40, 0.9)
    model = cagp.fit(X, Y, kernel=cagp.RBF(0.3), uncertainty=False, progress=False)
    assert not model.together
    assert "They were not modelled together: a whole kernel was given" in " ".join(model.story.split())


def test_bounds_name_hyperparameters_of_each_by_itself() -> None:
    X, _, Y = fields(40, 0.9)
    model = cagp.fit(X, Y, fit_options={"bounds": {"noise_variance": (1e-6, 1.0)}}, **QUICK)
    assert not model.together


@pytest.mark.parametrize("seed", range(3))
def test_few_observations_of_a_quantity_do_not_say_what_another_tells_about_it(seed: int) -> None:
    """Of few pairs the likelihood takes any two quantities for one: 95% intervals would hold as little as 10%."""
    X, _, Y = fields(60, 0.7, seed)
    Y[4:, 0] = np.nan
    model = cagp.fit(X, Y, **QUICK)
    assert not model.together
    assert "of y1 there are fewer than 20 observations" in " ".join(model.story.split())
    assert cagp.fit(X, Y, together=True, **QUICK).together


def test_the_estimator_predicts_several_outputs_together() -> None:
    X, F, Y = sparse(-0.95)
    own = {name: value for name, value in QUICK.items() if name not in ("progress", "transform")}
    regressor = CAGPRegressor(together="auto", target_transform=None, **own).fit(X, Y)
    missing = np.isnan(Y[:, 0])
    assert regressor.quantities_.together
    mean, std = regressor.predict(X[missing], return_std=True)
    whole = regressor.quantities_.predict(X[missing])
    np.testing.assert_allclose(mean, whole.mean)
    np.testing.assert_allclose(std, whole.std)
    assert np.abs(mean - F[missing]).mean(axis=0)[0] < 0.5
    _, covariance = regressor.predict(X[:4], return_cov=True, of="observed")
    assert covariance.shape == (4, 4, 2)
    observed = regressor.quantities_.predict(X[:4]).observed().std
    np.testing.assert_allclose(np.sqrt(np.diagonal(covariance).T), observed)
    assert regressor.sample_y(X[:4], 3).shape == (4, 2, 3)
    assert regressor.predict_interval(X[:4])[0].shape == (4, 2)
    assert np.isfinite(regressor.log_marginal_likelihood_value_)
    alone = regressor.set_params(together=False).fit(X[~missing], Y[~missing])
    assert not hasattr(alone, "quantities_")
    with pytest.raises(InputError, match="together is for kernels that are chosen"):
        CAGPRegressor(cagp.RBF(0.3), together=True).fit(X, Y)


def test_the_command_line(tmp_path: Path) -> None:
    X, _, Y = sparse(-0.95)
    table = pd.DataFrame(np.column_stack([X, Y]), columns=["east", "north", "Cd", "Zn"])
    table.to_csv(tmp_path / "data.csv", index=False)
    table[["east", "north"]][:7].to_csv(tmp_path / "new.csv", index=False)
    folder = str(tmp_path / "model")
    run = CliRunner().invoke
    fitted = run(app, ["fit", str(tmp_path / "data.csv"), "--target", "Cd,Zn", "--out", folder, "--kernel", "matern32"])
    assert fitted.exit_code == 0, fitted.output
    assert "40 observations of 'Cd' and 160 observations of 'Zn'" in fitted.output
    assert cagp.load(folder).together
    told = run(app, ["info", folder])
    assert "Correlations at one place" in told.output
    predicted = run(app, ["predict", folder, str(tmp_path / "new.csv"), "--observed"])
    assert predicted.exit_code == 0, predicted.output
    found, model = pd.read_csv(tmp_path / "new-predicted.csv"), cagp.load(folder)
    np.testing.assert_allclose(found["Cd_mean"], model.predict(X[:7]).observed().mean[:, 0])
    np.testing.assert_allclose(found["Zn_upper_95"], model.predict(X[:7]).observed().interval(0.95)[1][:, 1])
    again = run(app, ["fit", str(tmp_path / "data.csv"), "--target", "Cd,Zn", "--out", folder])
    assert again.exit_code == 2
    assert "already holds a model" in again.output
    for words in (
        ["check", folder],
        ["predict", folder, str(tmp_path / "new.csv"), "--no-std"],
        ["predict", folder, "--grid", "0.1", "--out", str(tmp_path / "map.tif")],
        ["predict", folder, str(tmp_path / "new.csv"), "--map", str(tmp_path / "map.html")],
    ):
        refused = run(app, words)
        assert refused.exit_code == 2
        assert "several" in refused.output
        assert f"{folder}/NAME" in refused.output.replace("\n", "")  # where to go on
    for words in (
        ["info", f"{folder}/Cd"],
        ["predict", f"{folder}/Cd", str(tmp_path / "new.csv"), "--out", str(tmp_path / "one.csv"), "--exceed", "50"],
        ["update", f"{folder}/Cd", str(tmp_path / "data.csv"), "--out", str(tmp_path / "more"), "--drop-missing"],
        ["predict", f"{folder}/Cd", str(tmp_path / "new.csv"), "--overwrite", "--map", str(tmp_path / "page.html")],
        ["predict", f"{folder}/Cd", "--grid", "0.1", "--out", str(tmp_path / "map.tif")],
    ):
        done = run(app, words)
        assert done.exit_code == 0, done.output
    np.testing.assert_allclose(pd.read_csv(tmp_path / "one.csv")["mean"], model["Cd"].predict(X[:7]).mean)
    one = run(
        app, ["fit", str(tmp_path / "data.csv"), "--target", "Zn", "--together", "--out", str(tmp_path / "other")]
    )
    assert one.exit_code == 2


@pytest.mark.slow
@pytest.mark.skipif("CAGP_DATA" not in os.environ, reason="CAGP_DATA names no folder with jura.csv")
def test_cadmium_in_the_jura_from_nickel_and_zinc() -> None:
    data = pd.read_csv(Path(os.environ["CAGP_DATA"]) / "jura.csv")
    known, X = (data["set"] == "prediction").to_numpy(), data[["Xloc", "Yloc"]]
    Y = data[["Cd", "Ni", "Zn"]].where(known[:, None] | np.array([False, True, True]))
    truth = data["Cd"][~known].to_numpy()
    alone = cagp.fit(X[known], data["Cd"][known], progress=False).predict(X[~known])
    prediction = cagp.fit(X, Y, progress=False).predict(X[~known])["Cd"]
    for own, before in ((prediction.mean, alone.mean), (prediction.median, alone.median)):
        assert np.abs(own - truth).mean() < 0.92 * np.abs(before - truth).mean()
    lower, upper = prediction.observed().interval(0.9)
    assert 0.83 <= np.mean((lower <= truth) & (truth <= upper)) <= 0.97


PLACES: dict[str, Any] = {**QUICK, "recalibrate": False, "varying": False, "mean": "constant"}


def test_no_model_of_all_together_is_begun_when_time_is_up() -> None:
    X, _, Y = sparse(-0.95)
    model = cagp.fit(X, Y, seconds=1e-6, **PLACES)
    assert model.joint is None
    assert "A model of all together was not tried, for want of time." in " ".join(model.story.split())
    assert cagp.fit(X, Y, seconds=1e-6, together=True, **PLACES).joint is not None  # what was asked for is there


def interrupting(monkeypatch: pytest.MonkeyPatch, when: Callable[[Any], bool]) -> list[int]:
    """Ctrl-C at the first evaluation of a likelihood ``when`` the run says so; gives the sizes of all after that."""
    evaluate, sizes = optimise._Run.evaluate, list[int]()

    def interrupted(run: optimise._Run, at: np.ndarray) -> Any:
        if sizes or when(run):
            if not sizes:
                signal.raise_signal(signal.SIGINT)
            sizes.append(run.size)
        return evaluate(run, at)

    monkeypatch.setattr(optimise._Run, "evaluate", interrupted)
    return sizes


def test_one_ctrl_c_ends_the_search_for_all_quantities(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first fit of the first of three quantities: the others get a model in a hurry."""
    X, _, Y = fields(320, 0.9)
    sizes = interrupting(monkeypatch, lambda run: len(run.trace) == 2)
    model = cagp.fit(X, np.column_stack([Y, Y[:, 0]]), **PLACES)
    assert sum(size == 320 for size in sizes) <= 8  # an evaluation or two for each, beside those of few observations
    assert model.interrupted
    story = " ".join(model.story.split())
    assert "Interrupted: the best so far was kept." in story
    assert "The search was cut short for y1, y2 and y3." in story
    assert "Models of all quantities together were not tried." in story
    for each in model.models:
        assert each.interrupted
        assert "Interrupted" in each.story
        assert "more seconds=" not in each.story
    errors = [np.abs(own - y).mean() for own, y in zip(model.predict(X).mean.T, Y.T, strict=False)]
    assert max(errors) < 0.5  # the standard deviation of the fields is 1


@pytest.mark.parametrize("step", [2, None])
def test_ctrl_c_while_quantities_are_modelled_together(monkeypatch: pytest.MonkeyPatch, step: int | None) -> None:
    """In the first fit of all together, and when that is judged: it is kept where it pays, and no other is tried."""
    X, _, Y = sparse(-0.95)
    if step is None:
        scores = together._Comparison._scores

        def interrupted(*arguments: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            monkeypatch.setattr(together._Comparison, "_scores", scores)
            return scores(*arguments)

        monkeypatch.setattr(together._Comparison, "_scores", interrupted)
    else:
        interrupting(monkeypatch, lambda run: run.size == (~np.isnan(Y)).sum() and len(run.trace) == step)
    model = cagp.fit(X, Y, **PLACES | {"kernel": ["matern32", "rbf"]}, together=True)
    assert model.together
    assert model.interrupted
    story = " ".join(model.story.split())
    assert "Not tried, because the search was interrupted: rbf." in story
    assert "Interrupted: the best so far was kept." in story
    assert "Cd" not in story
    assert story.count("Interrupted before the error bars were judged") == 2


@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
@pytest.mark.parametrize("together", ["auto", False])
def test_an_estimator_of_several_targets_keeps_the_best_and_ends(
    monkeypatch: pytest.MonkeyPatch, together: str | bool
) -> None:
    X, _, Y = fields(60, 0.9)
    sizes = interrupting(monkeypatch, lambda run: len(run.trace) == 2)
    regressor = CAGPRegressor(together=together, kernel=None, uncertainty=False, target_transform=None, varying=False)
    with pytest.raises(KeyboardInterrupt, match="best model found so far"):
        regressor.fit(X, Y)
    assert sum(size == 60 for size in sizes) <= 20  # of the hundreds of a whole search
    assert regressor.predict(X).shape == (60, 2)


def test_the_command_ends_as_one_that_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _, Y = fields(30, 0.9)
    pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "Cd": Y[:, 0], "Zn": Y[:, 1]}).to_csv(tmp_path / "data.csv", index=False)
    interrupting(monkeypatch, lambda run: len(run.trace) == 2)
    out = tmp_path / "model"
    asked = ["fit", tmp_path / "data.csv", "--target", "Cd,Zn", "--out", out, "--no-varying", "--transform", "none"]
    told = CliRunner().invoke(app, [str(each) for each in asked])
    assert told.exit_code == 130, told.output
    assert "Interrupted: " in told.stderr
    assert "best models so far" in told.stderr
    assert cagp.load(out).interrupted
    assert len(cagp.load(out).models) == 2  # type: ignore[attr-defined]
