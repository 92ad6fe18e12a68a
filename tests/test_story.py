"""Stories for people: sections, lines that fit, names and units that readers know, one voice."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import cagp
from cagp import hyperparameters
from cagp.choosing.candidates import is_short_and_long
from cagp.cli import app
from cagp.cli.shared import IN_OPTIONS, hyperparameter_rows
from cagp.fit_report import write_fit_report
from cagp.hyperparameters.named import in_sentences, named, naming
from cagp.hyperparameters.result import FitWarning, warn
from cagp.interop.xarray import fit as fit_field
from cagp.kernels.rotated import directions_in_words
from cagp.saving import About, FitSummary
from cagp.story import Story
from cagp.support.advice import Advice, all_worded
from cagp.support.numbers import BEYOND
from reports.pages import Page, smooth

RANDOM = np.random.default_rng
TITLES = ["Data", "What was tried", "What was chosen", "Error bars", "Time"]
FLAT = "The data say next to nothing about {1}: other values fit about as well, and predictions at places like "
FLAT += "those of the data hardly depend on {0}: nothing needs to be done there. Elsewhere they may depend on {0}."


@pytest.fixture(scope="module")
def fitted() -> cagp.Model:
    """A model of a table in which one column means nothing."""
    rng = RANDOM(0)
    table = pd.DataFrame({"time": pd.date_range("2024-01-01", periods=150), "salt": rng.random(150)})
    table["a column with quite a long name (and a remark)"] = rng.random(150)
    days = np.arange(150)
    y = np.sin(days / 15) + table["salt"].to_numpy() ** 2 + 0.1 * rng.normal(size=150)
    return cagp.fit(table, y, kernel=["rbf", "matern32"], uncertainty=False, varying=False, progress=False)


def test_a_story_has_sections_and_lines_that_fit(fitted: cagp.Model) -> None:
    assert fitted.record is not None
    assert [title for title, _ in fitted.record.sections] == TITLES
    printed = fitted.story.splitlines()
    assert [line for line, below in pairwise(printed) if set(below) == {"-"}] == TITLES
    table = {line for _, lines in fitted.record.sections for line in lines if line.startswith("  ")}
    assert len(table) == 1 + len(fitted.candidates)
    assert max(len(line) for line in printed if line not in table) <= 80
    words = " ".join(each for _, lines in fitted.record.sections for each in lines)
    assert " ".join(words.split()) in " ".join(
        re.sub(r"(?m)^(Data|What.*|Error bars|Time)\n-+$", "", fitted.story).split()
    )


def test_a_story_of_old_has_no_sections_and_is_wrapped_too() -> None:
    old = Story("1 candidate was fitted. " * 9 + "\n  a table\nAll of it took 4 s.", ())
    assert [title for title, _ in old.sections] == [""]
    assert max(map(len, str(old).splitlines())) <= 80
    assert "\n  a table\n" in str(old)
    later = old.after(20)
    assert str(later).startswith(str(old))
    assert "Observations added since: 20." in str(later)
    assert Story.from_json(later.to_json()) == later


def test_lengthscales_have_units_or_are_said_in_words(fitted: cagp.Model, tmp_path: Path) -> None:
    assert re.search(r"lengthscales time [0-9.]+ days, salt ", " ".join(fitted.story.split()))
    prior = cagp.Prior(cagp.RBF((3e8, 0.2, 5e7)), noise_variance=0.01)
    X = fitted.X.numpy()
    names = ["time", "salt", "rest"]
    kernel, noise = in_sentences(prior, names, (), X)
    assert f"{BEYOND} along time, rest, where only its relation to the standard deviation is known" in kernel
    assert noise == "Noise: standard deviation 0.100."
    told = fitted.story + Page(write_fit_report(fitted, tmp_path)).text
    model = prior.condition(X, fitted.y.numpy())
    told += Page(write_fit_report(model, tmp_path / "far")).text
    for found in re.findall(r"lengthscales?[^.;]*", told):
        assert not any(float(each.replace(",", "")) > 1e6 for each in re.findall(r"\d[\d,]*(?:\.\d+)?", found))
    page = Page(tmp_path / "far" / "report.html")
    assert page.row("hyperparameters", "lengthscale of x0")[1:] == [
        BEYOND,
        "given",
        "only its relation to the standard deviation is known",
    ]


def test_many_columns_far_beyond_the_data_are_told_once() -> None:
    X, names = RANDOM(0).random((40, 5)), list("abcde")
    smooth_one, rough = cagp.Matern32((1e4,) * 5), cagp.Matern12((1e4,) * 5)
    kernel, *_ = in_sentences(cagp.Prior(smooth_one), names, (), X)
    assert f"{BEYOND} along all columns, " in kernel
    assert kernel.endswith("; so far as the data reach it is practically a linear trend.")
    assert "linear" not in in_sentences(cagp.Prior(rough), names, (), X)[0]
    assert "linear" not in in_sentences(cagp.Prior(smooth_one * rough), names, (), X)[0]
    kernel = cagp.Matern32((0.5, 1e4, 1e4, 1e4, 0.2)) + smooth_one
    prior = cagp.Prior(kernel, mean=cagp.Polynomial(2, columns=(0, 3)))
    values = {each.name: each.value for each in named(prior, names)}
    values |= {f"mean.coefficients[{i}]": float(i) for i in range(6)}
    rows = hyperparameter_rows(prior, X, About(tuple(names)), values)
    assert ("kernel.kernels[0].lengthscale[…]", "b, c, d", BEYOND) in rows
    assert ("kernel.kernels[1].lengthscale[…]", "a, b, c, d, e", BEYOND) in rows
    assert [of for name, of, _ in rows if name.startswith("mean")] == ["constant", "a", "d", "a · a", "a · d", "d · d"]
    assert [name for name, *_ in rows][:2] == [
        "kernel.kernels[0].lengthscale[0]",
        "kernel.kernels[0].lengthscale[…]",
    ]


def test_units_of_distances_are_those_of_columns_or_of_the_globe() -> None:
    kernel = cagp.Geographic(cagp.Matern32(300.0), radius=6371.0).on(0, 1) * cagp.Matern32((5.0, 2.0)).on(2, 3)
    units = ("°N", "°E", "days since 1970-01-01", "°N")
    shown = [each.shown() for each in named(cagp.Prior(kernel), "abcd", units) if each.kind == "lengthscale"]
    assert shown == ["300 km", "5.00 days", "2.00 °"]
    for reach, said in ((19_000.0, "19,000 km"), (76_200.0, BEYOND)):  # half the circumference is 20,015 km
        (found, *_) = named(cagp.Prior(cagp.Geographic(cagp.Matern32(reach), radius=6371.0)), "ab", X=np.eye(2))
        assert found.shown() == said
    prior = cagp.Prior(kernel)
    names = [each.name for each in named(prior, "abcd")]
    called = naming(named(prior, "abcd"))
    assert called(names[:1]) == "the lengthscale in factor 1"
    assert called(names) == (
        "the lengthscale and the variance of the function in factor 1, the lengthscales of c and d and the variance of "
        "the function in factor 2 and the noise variance"
    )


def test_short_and_long_is_said_of_what_is() -> None:
    X = RANDOM(1).random((50, 2))
    short, long, far = cagp.Matern32((0.1, 0.2)), cagp.Matern12((1.0, 0.3)), cagp.Matern12((1e6, 0.3))
    assert is_short_and_long(short + long, X)
    assert not is_short_and_long(cagp.Matern32((0.1, 0.4)) + long, X)
    assert is_short_and_long(cagp.Matern32((1e8, 0.2)) + far, X)  # beyond the data both are the same
    globe = [
        cagp.Geographic(kind(scale), radius=6371.0) for kind, scale in ((cagp.Matern32, 9e3), (cagp.Matern12, 2e3))
    ]
    assert not is_short_and_long(globe[0] + globe[1], X)
    assert is_short_and_long(globe[1] + globe[0], X)


def test_one_voice_about_what_the_data_do_not_say(tmp_path: Path) -> None:
    advice = (Advice("flat", "noise_variance"), Advice("flat", "kernel.variance"))
    wanted = FLAT.format("them", "noise_variance and kernel.variance")
    assert all_worded(advice) == all_worded(advice, IN_OPTIONS) == (wanted,)
    assert all_worded(advice[:1]) == (FLAT.format("it", "noise_variance"),)
    X, y = smooth(40)
    result = replace(hyperparameters.fit(cagp.Prior(cagp.Matern32(0.5)), X, y, n_restarts=0), advice=advice)
    assert result.warnings == FitSummary.of(result, IN_OPTIONS).warnings == (wanted,)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        warn(result)
    assert [str(each.message) for each in caught] == [wanted]
    page = Page(write_fit_report(result.prior.condition(X, y), tmp_path, fit=result)).text
    assert FLAT.format("them", "the noise variance and the variance of the function") in page


def test_the_command_line_says_it_once(tmp_path: Path) -> None:
    rng = RANDOM(0)
    X = rng.random((160, 3))
    table = pd.DataFrame(X, columns=["east", "north", "idle"])
    table["y"] = np.sin(9 * X[:, 0]) * np.cos(6 * X[:, 1]) + 0.1 * rng.standard_t(4, size=160)
    table.to_csv(tmp_path / "t.csv", index=False)
    asked = ["--target", "y", "--kernel", "rbf", "--mean", "constant", "--no-varying", "--no-report"]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "m"), *asked])
    assert done.exit_code == 0, done.output
    info = CliRunner().invoke(app, ["info", str(tmp_path / "m")]).output
    for said in (" ".join(done.output.split()), " ".join(info.split())):
        assert said.count(FLAT.format("it", "the lengthscale of idle")) == 1
        assert f"{BEYOND} along idle" in said
        assert "160 observations at 3 columns: east, north, idle." in said
        assert not re.search(r"\d{7}", said.split("data file")[0].split("Gram matrix")[0])


def test_every_door_tells_the_names_of_columns() -> None:
    rng = RANDOM(4)
    X = pd.DataFrame(rng.random((40, 2)), columns=["east", "north"])
    y = np.sin(6 * X["east"]) + 0.1 * rng.normal(size=40)
    quick = {"kernel": "rbf", "mean": "constant", "uncertainty": False, "varying": False, "recalibrate": False}
    assert "40 observations at 2 columns: east, north." in cagp.fit(X, y, **quick, progress=False).story
    assert "40 observations at 2 columns: east, north." in cagp.CAGPRegressor(**quick).fit(X, y).model_.story
    hours = pd.date_range("2024-01-01", periods=30, freq="h")
    field = xr.DataArray(np.sin(np.arange(30) / 4) + 0.1 * rng.normal(size=30), {"time": hours}, ["time"])
    story = fit_field(field, coords=["time"], **quick, time_unit="h", progress=False).model.story
    assert "30 observations at 1 column: time." in story
    assert re.search(r"lengthscale [0-9.]+ hours", story)


def test_turned_axes_beyond_the_data_are_said_in_words() -> None:
    X = RANDOM(5).random((30, 3))
    kernel = cagp.Rotated(cagp.Matern32((1e8, 0.3)), 30).on(0, 1) * cagp.RBF(1.0).on(2)
    assert [each.shown() for each in named(cagp.Prior(kernel), "abc", X=X) if each.of.startswith("axis")] == [
        BEYOND,
        "0.300",
    ]
    (said,) = directions_in_words(kernel, "abc", X)
    assert f"the lengthscale is {BEYOND} there, 0.3 across" in said
    assert not any("axis" in each for each in in_sentences(cagp.Prior(kernel), "abc", (), X))


def test_a_lengthscale_along_two_values_says_nothing_of_others() -> None:
    """Of 60 stations two were read a day later: predictions of the day after depend on what these cannot tell."""
    rng = RANDOM(1)
    X = pd.DataFrame({"x": rng.random(60), "y": rng.random(60), "day": 0.0, "wet": rng.random(60) > 0.5})
    X.loc[[3, 40], "day"] = 7.5
    v = np.sin(5 * X["x"]) * np.cos(4 * X["y"]) + 0.1 * rng.normal(size=60)
    quick = {"kernel": "rbf", "mean": "constant", "uncertainty": False, "varying": False, "progress": False}
    story = " ".join(cagp.fit(X, v, **quick).story.split())
    assert re.search(r"next to nothing about the lengthscales? of (day|\w+ and day|day and \w+)", story)
    assert "nothing needs to be done there. Elsewhere they may depend on" in story
    assert "day has only 2 different values: predictions at others depend on its lengthscale." in story
    assert "wet has only" not in story


def test_numbers_that_may_be_names_are_told() -> None:
    rng = RANDOM(2)
    X = pd.DataFrame({"x": rng.random(40), "Station_ID": rng.permutation(40), "grid": rng.permutation(40), "NO": 3})
    X["NO"], X["code"] = rng.integers(0, 90, 40), rng.random(40)
    quick = {"kernel": "rbf", "mean": "constant", "uncertainty": False, "varying": False, "recalibrate": False}
    story = " ".join(cagp.fit(X, np.sin(6 * X["x"]) + 0.1 * rng.normal(size=40), **quick, progress=False).story.split())
    assert "'Station_ID' is taken for a quantity; if its whole numbers only name stations or rows, as its" in story
    assert story.count("is taken for a quantity") == 1
