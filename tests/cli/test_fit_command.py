"""``cagp fit``, ``info``, ``check`` and ``solvers``: what they print, write and refuse."""

from __future__ import annotations

import errno
import logging
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cagp
from cagp import saving
from cagp.cli import main
from cagp.cli.expressions import as_solver, evaluated
from cagp.errors import InputError
from cagp.hyperparameters.optimise import _Run
from cagp.interop import xarray as interop
from cagp.support.progress import LOGGER
from cli.small import VALUES, call, snapshot, write_small

ONE = ("--kernel", "matern32", "--mean", "constant", "--no-uncertainty")
"""One candidate, so that a fit is quick."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, test.csv and a fitted model with its report."""
    place = tmp_path_factory.mktemp("fit")
    write_small(place / "train.csv", 80)
    write_small(place / "test.csv", 40, seed=1)
    result = call("fit", place / "train.csv", "--target", "hei", "--out", place / "model", *ONE)
    assert result.exit_code == 0, result.output
    assert "1 candidate was fitted to 80 observations" in result.stdout
    assert "kernel.lengthscale[1]" in result.stdout
    assert "±" in result.stdout
    assert f"Report: {place / 'model-report' / 'report.html'}" in result.stdout.replace("\n", "")
    return place


def test_fitted_values_are_those_of_the_library(folder: Path) -> None:
    saved = saving.read(folder / "model")
    assert saved.about.features == ("east", "north")
    assert saved.about.target == "height"
    train = pd.read_csv(folder / "train.csv")
    start = cagp.Prior(cagp.Matern32((0.3, 0.3), 1.0), mean=cagp.Constant(), noise_variance=0.05)
    expected = cagp.hyperparameters.fit(start, train[["east", "north"]], train["height"])
    assert saved.about.fit is not None
    assert saved.about.fit.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-3)
    assert saved.prior.noise_variance == pytest.approx(expected.prior.noise_variance, rel=1e-2)
    assert (folder / "model-report" / "report.html").exists()


def test_a_trend_of_trees(folder: Path, tmp_path: Path) -> None:
    asked = ["fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", *ONE, "--mean", "trees"]
    result = call(*asked)
    assert result.exit_code == 0, result.output
    assert "The trend is HistGradientBoostingRegressor" in " ".join(result.stdout.split())
    assert "HistGradientBoostingRegressor" in (tmp_path / "m-report" / "report.html").read_text(encoding="utf-8")
    assert call("predict", tmp_path / "m", folder / "test.csv", "--out", tmp_path / "p.csv").exit_code == 0
    train, test = (pd.read_csv(folder / name) for name in ("train.csv", "test.csv"))
    options = {"kernel": "matern32", "mean": "trees", "uncertainty": False, "progress": False}
    model = cagp.fit(train[["east", "north"]], train["height"], **options)
    expected = model.predict(test[["east", "north"]]).mean
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["mean"], expected, rtol=1e-6)
    assert "CrossFitted" in call("info", tmp_path / "m").stdout
    refused = call(*asked, "--no-fit", *VALUES, "--overwrite")
    assert "--mean trees is learned; leave one of them out" in " ".join(refused.output.split())


def test_who_has_read_enough_gets_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []

    def closed(text: str = "", err: bool = False, **options: Any) -> None:
        said.append((text, err))
        if not err:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("cagp.cli.shared.typer.echo", closed)
    result = call("info", folder / "model")
    assert result.exit_code == 1
    assert not [text for text, err in said if err]


def test_info(folder: Path) -> None:
    result = call("info", folder / "model")
    assert result.exit_code == 0
    for words in (
        "80 observations of height",
        "Matérn 3/2",
        "noise_variance",
        "Gram matrix",
        "cagp 0.",
        "east",
        "±",
        "Chosen:",
    ):
        assert words in result.stdout


@pytest.mark.usefixtures("words_only")
def test_check(folder: Path) -> None:
    result = call("check", folder / "model", folder / "test.csv")
    assert result.exit_code == 0, result.output
    assert (folder / "model-check" / "check.html").exists()
    assert "hold" in result.stdout


@pytest.mark.usefixtures("words_only")
def test_check_with_noise_of_each_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(200), "s2": np.geomspace(1e-4, 1, 200)})
    frame["y"] = np.sin(5 * frame["x"]) + np.sqrt(frame["s2"]) * rng.normal(size=200)
    frame[::2].to_csv(tmp_path / "train.csv", index=False)
    frame[1::2].to_csv(tmp_path / "new.csv", index=False)
    options = ["--noise-column", "s2", "--no-report", *ONE, "--no-recalibrate", "--out", tmp_path / "m"]
    assert call("fit", tmp_path / "train.csv", "--target", "y", *options).exit_code == 0
    average = call("check", tmp_path / "m", tmp_path / "new.csv")
    assert average.exit_code == 3, average.output
    assert "Without --noise-column" in average.stdout
    each = call("check", tmp_path / "m", tmp_path / "new.csv", "--noise-column", "s2")
    assert each.exit_code == 0, each.output
    assert "none is given" in call("check", tmp_path / "m", "--noise-column", "s2").stderr


@pytest.mark.usefixtures("words_only")
def test_check_says_no(folder: Path, tmp_path: Path) -> None:
    """A model whose noise is far too small has error bars that are too narrow for observations."""
    values = ["--no-fit", "--lengthscale", 0.4, "--variance", 1, "--noise-variance", 1e-4, "--no-recalibrate"]
    arguments = ["fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "bad", *values, "--no-report"]
    assert call(*arguments).exit_code == 0
    result = call("check", tmp_path / "bad", folder / "test.csv", "--out", tmp_path / "report", "--quiet")
    assert (result.exit_code, result.output) == (3, "")
    assert (tmp_path / "report" / "check.html").exists()


def test_a_folder_with_brackets_in_its_name(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "run [bold] [" / "model [/x]"
    shutil.copytree(folder / "model", place)
    assert "model[/x]" in "".join(call("info", place).stdout.split())  # wherever the line is broken


def test_solvers_are_all_listed() -> None:
    output = call("solvers").stdout
    for solver in cagp.solvers.ALL:
        assert solver.name in output
        assert solver.__name__ in output


def test_quiet_and_overwriting(folder: Path, tmp_path: Path) -> None:
    arguments = ["fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", *VALUES, "--no-report"]
    result = call(*arguments, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    before = snapshot(tmp_path)
    again = call(*arguments)
    assert again.exit_code == 2
    assert "already holds a model; --overwrite replaces it" in again.stderr
    assert snapshot(tmp_path) == before
    assert call(*arguments, "--overwrite", "--solver", "GaussSeidel(7)").exit_code == 0
    assert saving.read(tmp_path / "m").solver == cagp.GaussSeidel(7)


@pytest.mark.parametrize(
    ("options", "solver"),
    [
        (["--solver", "GaussSeidel(7)"], cagp.GaussSeidel(7)),
        (["--solver", "gauss-seidel", "--iterations", "3"], cagp.GaussSeidel(3)),
        (["--solver", "auto"], cagp.Cholesky()),
    ],
)
def test_the_solver_of_a_search(folder: Path, tmp_path: Path, options: list[str], solver: cagp.Solver) -> None:
    kind = ["--kernel", "rbf", "--mean", "zero", "--no-uncertainty", "--transform", "none", "--no-recalibrate"]
    arguments = ["fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", "--no-report", *kind]
    result = call(*arguments, "--no-varying", "--no-rotate", *options)
    assert result.exit_code == 0, result.output
    assert saving.read(tmp_path / "m").solver == solver


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--target", "depth"], "has no column 'depth'"),
        (["--target", "height", "--features", "east,west"], "has no column 'west'"),
        (["--target", "height", "--features", "east,height"], "cannot be a feature"),
        (["--target", "height", "--exclude", "east,north"], "no column left"),
        (["--target", "height", "--kernel", "nonsense"], "--kernel must be one of"),
        (["--target", "height", "--kernel", "matrn32"], "did you mean 'matern32'"),
        (["--target", "height", "--kernel", "Matern2(0.5)"], "did you mean 'Matern"),
        (["--target", "height", "--solver", "gaus-seidel"], "did you mean 'gauss-seidel'"),
        (["--target", "heigth"], "did you mean 'height'"),
        (["--target", "height", "--lengthscale", "-1"], "--lengthscale must be positive"),
        (["--target", "height", "--kernel", "cubic"], "--kernel must be one of"),
        (["--target", "height", "--kernel", "__import__('os')"], "--kernel must be one of"),
        (["--target", "height", "--mean", "cubic"], "--mean must be one of"),
        (["--target", "height", "--solver", "newton"], "--solver must be one of"),
        (["--target", "height", "--solver", "Matern32(1)"], "is not a solver"),
        (["--target", "height", "--solver", "subset"], "Subset needs either size or indices"),
        (["--target", "height", "--solver", "nearest-neighbours", "--iterations", "5"], r"NearestNeighbours\(k=300\)"),
        (["--target", "height", "--likelihood", "fast"], "--likelihood must be one of"),
        (["--target", "height", "--subset", "1000"], "--subset must be between 2"),
        (["--target", "height", "--globe", "east"], "--globe must name two"),
        (["--target", "height", "--globe", "east,depth"], "no column 'depth'"),
        (["--target", "height", "--no-fit"], "needs --noise-variance and --lengthscale and --variance"),
        (["--target", "height", *VALUES, "--lengthscale", "1,2,3"], "3 values for 2 features"),
        *(
            (
                ["--target", "height", *VALUES, f"--{flag}"],
                f"--{flag.split('=')[0]} is for a fit, and --no-fit does none",
            )
            for flag in ("seconds=5", "varying", "uncertainty", "restarts=2", "subset=20", "likelihood=exact")
        ),
        (["--target", "height", "--lengthscale", "long"], "--lengthscale must be a number"),
        (["--target", "height", "--fix", "nonsense"], "fix names 'nonsense'"),
        (["--target", "height", "--noise-variance", "-1"], "--noise-variance must be positive"),
        (["--target", "height", "--variance", "-1"], "variance must be positive"),
        (["--target", "height", "--variance", "0"], "variance must be positive"),
        (["--target", "height", "--no-ard", "--lengthscale", "1,2"], "--no-ard is one lengthscale"),
        (
            ["--target", "height", "--features", "east", "--noise-column", "north", "--noise-variance", "1"],
            "would be ignored",
        ),
        (["--target", "height", "--seed", "-1"], "seed"),
        ([], "target"),
    ],
)
def test_wrong_use(folder: Path, tmp_path: Path, more: list[str], words: str) -> None:
    result = call("fit", folder / "train.csv", "--out", tmp_path / "model", *more)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(" ".join(result.stderr.split()))
    if words.startswith(
        ("--kernel", "did you mean", "--noise-variance", "variance must", "needs --noise-variance")
    ):  # before any word
        assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_features_noise_and_missing_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((30, 3)), columns=["a", "b, c", "y"]).assign(one=1.0, s2=0.02, text="x")
    frame.loc[4, "a"] = np.nan
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = ["fit", tmp_path / "data.csv", "--target", "y", "--noise-column", "s2", "--no-report"]
    values = ["--no-fit", "--lengthscale", "0.3", "--variance", "1"]
    refused = call(*arguments, *values, "--out", tmp_path / "m")
    assert refused.exit_code == 2
    assert "--drop-missing" in refused.stderr
    result = call(*arguments, *values, "--out", tmp_path / "m", "--drop-missing")
    assert result.exit_code == 0, result.output
    assert "1 rows" in result.stdout
    assert "one value only: 'one'" in result.stdout
    assert "one value only: 'text'" in result.stdout
    saved = saving.read(tmp_path / "m")
    assert saved.about.features == ("a", "b, c")
    assert saved.X.shape == (29, 2)
    np.testing.assert_array_equal(saved.prior.noise_variance, np.full(29, 0.02))
    result = call(*arguments, *values, "--features", 'a,"b, c"', "--out", tmp_path / "n", "--drop-missing")
    assert result.exit_code == 0, result.output


def test_lists_of_columns_can_be_given_piece_by_piece(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((30, 4)), columns=["a", "b, c", "d", "y"])
    frame.assign(zone=[1, 2] * 15, kind=[3, 4, 5] * 10).to_csv(tmp_path / "data.csv", index=False)
    arguments = ["fit", tmp_path / "data.csv", "--target", "y", "--no-report", "--no-recalibrate", "--overwrite"]
    for i, (more, features) in enumerate(
        [
            (["--features", "d", "--features", '"b, c",a'], ("d", "b, c", "a")),
            (["--exclude", "d,zone", "--exclude", "kind"], ("a", "b, c")),
            (
                ["--categories", "zone", "--categories", "kind"],
                ("a", "b, c", "d", "zone=2", "kind=4", "kind=5"),
            ),
        ]
    ):
        result = call(*arguments, *VALUES, "--out", tmp_path / f"{i}", *more)
        assert result.exit_code == 0, result.output
        assert saving.read(tmp_path / f"{i}").about.features == features
    start = ["--features", "a", *VALUES[1:], *ONE, "--fix", "kernel.lengthscale", "--fix", "noise_variance"]
    result = call(*arguments, "--out", tmp_path / "m", *start)
    assert result.exit_code == 0, result.output
    prior = saving.read(tmp_path / "m").prior
    assert (prior.kernel.lengthscale, prior.noise_variance) == (0.4, 0.01)


def test_a_grid_on_the_globe(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dataset = xr.Dataset(
        {"t": (("time", "lat", "lon"), 280 + rng.normal(size=(1, 5, 6)), {"units": "K"})},
        {
            "time": [np.datetime64("2024-01-01", "ns")],
            "lat": ("lat", np.linspace(-60, 60, 5), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(6) * 60.0, {"units": "degrees_east"}),
        },
    )
    dataset.to_netcdf(tmp_path / "field.nc", engine="h5netcdf")
    values = ["--no-fit", "--lengthscale", "500", "--variance", "2", "--noise-variance", "0.1"]
    arguments = ["fit", tmp_path / "field.nc", "--target", "t", *values, "--no-report"]
    result = call(*arguments, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "distance is measured on the globe" in result.stdout
    saved = saving.read(tmp_path / "m")
    assert saved.prior.kernel == cagp.Geographic(cagp.Matern32(500.0, 2.0), radius=6371.0)
    assert saved.about.units == {"lat": "degrees_north", "lon": "degrees_east", "t": "K"}
    assert call(*arguments, "--globe", "none", "--out", tmp_path / "flat").exit_code == 0
    assert saving.read(tmp_path / "flat").prior.kernel == cagp.Matern32((500.0, 500.0), 2.0)
    written = [
        "--kernel",
        "Geographic(RBF(0.1))",
        "--no-fit",
        "--noise-variance",
        0.1,
        "--no-report",
    ]  # --globe is not given
    result = call(*arguments[:4], *written, "--out", tmp_path / "w")
    assert result.exit_code == 0, result.output
    assert saving.read(tmp_path / "w").prior.kernel == cagp.Geographic(cagp.RBF(0.1))


def test_copies_on_a_grid_are_no_observations(tmp_path: Path) -> None:
    """As in cagp.interop.xarray: the pole is written once for each longitude, and a meridian may be repeated."""
    values = np.random.default_rng(0).normal(size=(5, 7))
    values[0], values[-1], values[:, -1] = 1.0, 2.0, values[:, 0]
    dataset = xr.Dataset(
        {"t": (("lat", "lon"), values), "s2": (("lat", "lon"), 0.1 + np.arange(35.0).reshape(5, 7))},
        {
            "lat": ("lat", np.linspace(-90, 90, 5), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(7) * 60.0, {"units": "degrees_east"}),
        },
    )
    dataset.to_netcdf(tmp_path / "field.nc", engine="h5netcdf")
    options = ["--no-fit", "--lengthscale", 500, "--variance", 2, "--noise-column", "s2", "--no-report"]
    result = call("fit", tmp_path / "field.nc", "--target", "t", *options, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "15 of 35 rows are left out" in result.stdout
    saved = saving.read(tmp_path / "m")
    prior = cagp.Prior(saved.prior.kernel)
    theirs = interop.condition(dataset["t"], prior, noise_variance=dataset["s2"])
    np.testing.assert_array_equal(saved.X, theirs.model.X)
    np.testing.assert_array_equal(saved.prior.noise_variance, theirs.model.prior.noise_variance)


@pytest.mark.parametrize("options", [["--globe", "lat,lon"], ["--kernel", "Geographic(Matern32(0.1))"]])
def test_copies_in_a_table_are_no_observations(tmp_path: Path, options: list[str]) -> None:
    """Same place and value: one observation. Other values, or the same longitude twice, are independent."""
    rows = [(90, 0, 1), (90, 120, 1), (90, 240, 3), (-90, 5, 7), (10, 0, 2), (10, 360, 2), (20, -180, 4), (20, 180, 5)]
    rows += [(30, 7, 6), (30, 7, 6)]
    pd.DataFrame(rows, columns=["lat", "lon", "t"]).to_csv(tmp_path / "t.csv", index=False)
    values = ["--no-fit", "--noise-variance", 0.1, "--no-report", *([] if "--kernel" in options else VALUES[1:5])]
    result = call("fit", tmp_path / "t.csv", "--target", "t", *options, *values, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "2 of 10 rows are left out" in result.stdout
    saved = saving.read(tmp_path / "m")
    kept = [row for i, row in enumerate(rows) if i not in (1, 5)]
    assert [(*x, y) for x, y in zip(saved.X.tolist(), saved.y.tolist(), strict=True)] == kept
    flat = call("fit", tmp_path / "t.csv", "--target", "t", *VALUES, "--no-report", "--out", tmp_path / "flat")
    assert flat.exit_code == 0, flat.output
    assert len(saving.read(tmp_path / "flat").y) == 10
    grid = tmp_path / "grid.csv"
    pd.DataFrame(rows, columns=["lat", "lon", "t"]).to_csv(grid, index=False)
    assert call("predict", tmp_path / "m", grid, "--out", tmp_path / "out.csv").exit_code == 0
    assert len(pd.read_csv(tmp_path / "out.csv")) == 10  # every row of a grid is predicted


@pytest.mark.parametrize("start", [0, 1])
def test_interrupted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    """The model with the best values so far is written; also where Ctrl-C comes after the best start was finished."""
    evaluate = _Run.evaluate

    def interrupted(run: _Run, log_values: np.ndarray) -> Any:
        if run._start == start and len(run.trace) == 2:
            signal.raise_signal(signal.SIGINT)
        return evaluate(run, log_values)

    monkeypatch.setattr(_Run, "evaluate", interrupted)
    result = call("fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", "--restarts", 2, *ONE)
    assert result.exit_code == 130, result.output
    assert "best model so far" in result.stderr
    assert "max_iterations" not in result.output
    assert "did not converge" not in result.output
    saved = saving.read(tmp_path / "m")
    assert saved.about.fit is not None
    assert saved.about.fit.converged == (start == 1)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert "max_iterations" not in call("info", tmp_path / "m").output
    monkeypatch.undo()
    for asked in ((folder / "test.csv", "--out", tmp_path / "p.csv"), ("--grid", 0.2, "--out", tmp_path / "p.nc")):
        told = call("predict", tmp_path / "m", *asked, "--quiet")
        assert told.exit_code == 0, told.output
        assert told.stderr.startswith("Warning: The search for this model was interrupted, so its error bars are those")
        assert call("predict", folder / "model", *asked, "--overwrite", "--quiet").stderr == ""


def test_terminated(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM keeps the best model so far, also where it comes twice, as `timeout` sends it."""
    evaluate = _Run.evaluate

    def terminated(run: _Run, log_values: np.ndarray) -> Any:
        if len(run.trace) == 2:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        return evaluate(run, log_values)

    monkeypatch.setattr(_Run, "evaluate", terminated)
    monkeypatch.setattr(LOGGER, "handlers", list(LOGGER.handlers))
    arguments = ["fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", *ONE]
    monkeypatch.setattr(sys, "argv", ["cagp", *map(str, arguments)])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
        LOGGER.setLevel(logging.NOTSET)
    assert ended.value.code == 143
    assert saving.is_model_folder(tmp_path / "m")


def test_interrupted_before_anything_is_known(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: _Run, log_values: np.ndarray) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Run, "evaluate", interrupted)
    result = call("fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m")
    assert result.exit_code == 130, result.output
    assert "Nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_finding_of_the_report_is_printed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = SimpleNamespace(finding="The error bars are right as far as can be told.")
    monkeypatch.setattr("cagp.fit_report.write_fit_report", lambda *arguments, **options: written)
    result = call("fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", *VALUES)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == written.finding


def test_warnings_name_options(tmp_path: Path) -> None:
    """A feature that the target does not depend on: its lengthscale ends at a bound."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((60, 2)), columns=["a", "b"])
    frame.assign(y=np.sin(5 * frame["a"])).to_csv(tmp_path / "data.csv", index=False)
    arguments = ["fit", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "m", "--no-report", *ONE]
    result = call(*arguments, "--no-rotate")  # another candidate would start where the first one ended, within bounds
    kept = call("info", tmp_path / "m")
    for said in (result.stdout, kept.stdout):
        assert "Warning:" in said
        assert "(--fix)" in said
        for name in ("bounds=", "give it bounds", "max_iterations"):
            assert name not in said


def test_interrupted_in_the_report(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cagp.fit_report.write_fit_report", interrupted)
    result = call("fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", *VALUES)
    assert result.exit_code == 130
    assert "the model is written" in result.stderr
    assert "Nothing was written" not in result.stderr
    assert saving.is_model_folder(tmp_path / "m")


def test_times_have_a_factor_of_their_own(tmp_path: Path) -> None:
    """Dates of a CSV are days, and --times gives them the kernel that times= gives them in Python."""
    rng, days = np.random.default_rng(0), pd.date_range("2024-03-01", periods=60, freq="36h")
    frame = pd.DataFrame({"x": rng.random(60), "y": rng.random(60), "day": days})
    frame["level"] = np.sin(4 * frame["x"] + np.arange(60) / 9) + 0.1 * rng.normal(size=60)
    frame.to_csv(tmp_path / "film.csv", index=False)
    arguments = ("fit", tmp_path / "film.csv", "--target", "level", "--no-report", *ONE)
    result = call(*arguments, "--out", tmp_path / "film", "--times", "da")
    assert result.exit_code == 0, result.output
    quick: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "uncertainty": False, "progress": False}
    expected = cagp.fit(frame[["x", "y", "day"]], frame["level"], times=["day"], **quick)
    found = cagp.load(tmp_path / "film")
    assert [part.columns for part in found.prior.kernel.walk((0, 1, 2)) if part.columns in ((0, 1), (2,))][:2] == [
        (0, 1),
        (2,),
    ]
    np.testing.assert_allclose(found.X, expected.X)  # days since 1970
    new = found.X[:5] + 0.1
    np.testing.assert_allclose(found.predict(new).mean, expected.predict(new.numpy()).mean, rtol=1e-6)
    for more, words in (
        (("--times", "height"), "no column 'height'"),
        (("--times", "level"), "--times: 'level' is no feature"),
        (("--times", "day", "--lengthscale", "0.3"), "--times is for a kernel that is chosen"),
        (("--times", "day", *VALUES), "--times is for a kernel that is chosen"),
    ):
        refused = call(*arguments, "--out", tmp_path / "other", *more)
        assert refused.exit_code == 2
        assert words in " ".join(refused.stderr.split())


def test_globe_and_more_features(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).random((40, 4)), columns=["depth", "lat", "lon", "y"])
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = ["fit", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "m", "--no-report"]
    result = call(*arguments, "--globe", "lat,lon", *ONE)
    assert result.exit_code == 0, result.output
    kernel = saving.read(tmp_path / "m").prior.kernel
    assert isinstance(kernel, cagp.kernels.Product)
    assert [part.columns for part in kernel.kernels] == [(1, 2), (0,)]  # type: ignore[attr-defined]
    assert kernel.kernels[1].kernel.variance == 1.0  # type: ignore[attr-defined]
    guessed = call(*arguments, *VALUES, "--globe", "lat,lon", "--overwrite")
    assert guessed.exit_code == 2
    assert "write all of them as a kernel" in guessed.stderr
    written = "Geographic(Matern32(300.0, 1.0), radius=6371.0).on(1, 2) * Matern32(2.0).on(0)"
    assert call(*arguments, "--no-fit", "--kernel", written, "--noise-variance", 0.1, "--overwrite").exit_code == 0
    assert "if 'lat' and 'lon' are degrees" in call(*arguments, *VALUES, "--overwrite").stdout
    flat = call(*arguments, *ONE, "--overwrite").stdout
    assert "if 'lat' and 'lon' are degrees, --globe 'lat,lon' measures on the globe." in flat
    assert "globe=(" not in flat  # the story, which has the words of Python


@pytest.mark.parametrize(
    "solver",
    [
        cagp.GaussSeidel(20, block_size=512, order="natural"),
        cagp.CalibratedCG(10, cagp.Nystrom(1000), start=cagp.NearestNeighbours(100)),
        cagp.Chain([cagp.GaussSeidel(2), cagp.CalibratedCG(3)]),
        cagp.Subset(indices=(3, 1)),
    ],
)
def test_solvers_as_they_print_themselves(solver: cagp.Solver) -> None:
    assert as_solver(repr(solver)) == solver


def test_kernels_as_they_print_themselves() -> None:
    kernel = (2.5 * cagp.Matern32((0.1, 0.2)) + cagp.RBF(3.0).on(1)) * cagp.Periodic(1.0, period=2.0).on(0)
    assert evaluated(repr(kernel), "") == kernel
    assert evaluated("0.5 * Matern12(0.1)", "") == 0.5 * cagp.Matern12(0.1)


@pytest.mark.parametrize(
    "text",
    [
        "", "GaussSeidel", "GaussSeidel(", "open('x')", "GaussSeidel(**{})", "GaussSeidel().prepare", "().__class__",
        "GaussSeidel(iterations=1+1)", "Nystrom(1, 2, 3)", "GaussSeidel(nonsense=1)", "(lambda: 1)()", "1",
        "[x for x in y]",        "GaussSeidel(-1)", "(" * 5000, "GaussSeidel(10**10**10)",
    ],
)  # fmt: skip
def test_expressions_that_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        as_solver(text)


def test_old_names_of_options_work_and_tell_the_new_ones(folder: Path, tmp_path: Path) -> None:
    arguments = ["fit", folder / "train.csv", "--target", "height", "--no-report", "--no-recalibrate", *VALUES[:5]]
    result = call(*arguments, "--noise", 0.01, "--geo", "none", "--out", tmp_path / "old")
    assert result.exit_code == 0
    assert "--noise is called --noise-variance now" in result.stderr
    assert "--geo is called --globe now" in result.stderr
    result = call(*arguments, "--noise", 0.01, "--noise-variance", 0.01, "--out", tmp_path / "both")
    assert result.exit_code == 2
    assert "--noise is the old name of --noise-variance" in result.stderr


def test_the_table_of_a_mixture_says_of_which_component_it_is(tmp_path: Path) -> None:
    X = np.linspace(0, 1, 9)[:, None]
    model = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.1).condition(X, np.sin(6 * X[:, 0]))
    other = model.components[0].with_prior(cagp.Prior(cagp.Matern32(0.5), noise_variance=0.1))
    model.save(tmp_path / "alone")
    model.replace(components=[model.components[0], other], weights=(0.7, 0.3)).save(tmp_path / "two")
    said = "kernel and hyperparameters are of component 1 of 2, with the weight 0.7"
    assert said in " ".join(call("info", tmp_path / "two").stdout.split())
    assert "component" not in call("info", tmp_path / "alone").stdout


def test_info_says_whose_noise_is_another(tmp_path: Path) -> None:
    X, factors = np.arange(8.0)[:, None], np.r_[np.ones(6), 9.0, 9.0]
    pattern = cagp.Pattern(cagp.RBF(2.0), [[0.0], [7.0]], [1.0, 2.0])
    prior = cagp.Prior(cagp.Matern32(2.0), noise_variance=0.01, noise_factors=factors)
    for name, each in {"one": None, "both": pattern}.items():
        replace(prior, noise_pattern=each).condition(X, np.sin(X[:, 0])).save(tmp_path / name)
        shown = " ".join(call("info", tmp_path / name).output.split())
        assert "more for 2 outliers" in shown
        assert ("varies with the inputs, 0.01 … 0.04" in shown) == (each is not None)
