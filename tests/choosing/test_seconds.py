"""A budget of seconds: the best so far is kept and judged, and the story says what was not tried."""

from __future__ import annotations

import dataclasses
import math
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cagp
from cagp import saving
from cagp.choosing.candidates import CandidatePrior
from cagp.choosing.options import Options, TrainingData
from cagp.choosing.search import CandidateSearch, Step
from cagp.choosing.steps import steps_for
from cagp.cli import app
from cagp.estimator import CAGPRegressor
from cagp.hyperparameters import fit, optimise
from cagp.support import clock
from cagp.support.interrupt import Interrupt, ending_at

RNG = np.random.default_rng(0)
X = RNG.random((80, 2))
Y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=80)
NOTHING = 1e-6  # seconds: used up before anything but the first candidate can begin


@pytest.fixture(autouse=True)
def users_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that users get: other tests have more."""
    monkeypatch.setattr("cagp.choosing.options._SECONDS", 60.0)


def test_one_candidate_is_fitted_and_judged_whatever_the_budget() -> None:
    model = cagp.fit(X, Y, seconds=NOTHING, progress=False)
    story = model.record.text
    assert "1 candidate was fitted" in story
    assert "To end within 1e-06 seconds, these were not tried: a transform of the observations, a noise of" in story
    steps = steps_for(Options(seconds=NOTHING).checked(TrainingData.read(X, Y, None)))
    left_out = [step for step in steps if not step.always and step.share < math.inf]
    silent = [step.name for step in left_out if not step.what]
    assert not silent, f"Step({', '.join(silent)}) in choosing/steps.py lacks `what`, which is told when time is up"
    told = story.split("not tried: ")[1].split(";")[0]
    assert told == ", ".join(["a transform of the observations", *(step.what for step in left_out)])
    assert "50% intervals hold" in story
    assert "because one candidate is always fitted" in story
    assert not model.interrupted
    assert np.abs(model.predict(X, progress=False).mean - Y).mean() < 0.2


_CANDIDATE = "one candidate is always fitted and judged, which took "


@pytest.mark.parametrize(
    ("first", "judging", "reason"),
    [
        (9.0, 0.0, f"because {_CANDIDATE}9.0 s."),
        (3.0, 4.0, f"because {_CANDIDATE}3.0 s, and the error bars are always judged, which took 4.0 s."),
        (0.1, 9.0, f"because {_CANDIDATE}0.1 s, and the error bars are always judged, which took 9.0 s."),
        (2.0, 2.0, "because what has begun when its time is up is finished."),
    ],
)
def test_why_it_took_longer_is_told_truly(
    first: float, judging: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that the first candidate, the choice of a mixture and the error bars take on, and hardly the rest."""
    now = [0.0]

    def ticked() -> float:
        now[0] += 1e-6
        return now[0]

    monkeypatch.setattr(time, "perf_counter", ticked)
    takes, tried = {"mixture": 2.0, "error bars": judging}, CandidateSearch.tried

    def slow(search: CandidateSearch, candidate: Any, charge: float = 0.0) -> Any:
        found = tried(search, candidate, charge)
        now[0] += first
        return dataclasses.replace(found, seconds=first)

    def slower(step: Step, search: CandidateSearch) -> CandidateSearch:
        now[0] += takes.get(step.name, 0.0)
        return step.run(search)

    def slow_steps(request: Any) -> list[Step]:
        return [dataclasses.replace(step, run=partial(slower, step)) for step in steps_for(request)]

    monkeypatch.setattr(CandidateSearch, "tried", slow)
    monkeypatch.setattr("cagp.choosing.front_door.steps_for", slow_steps)
    options = {"kernel": "rbf", "mean": "constant", "transform": None, "uncertainty": False, "varying": False}
    story = " ".join(str(cagp.fit(X, Y, seconds=5.0, progress=False, **options).story).split())
    assert reason in story


def test_the_first_candidate_starts_small_and_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which an evaluation takes as many seconds as there are observations, in hundreds."""
    now, sizes, evaluate = [0.0], list[int](), optimise._Run.evaluate

    def counted(run: optimise._Run, at: np.ndarray) -> object:
        sizes.append(run.size)
        now[0] += run.size / 100
        return evaluate(run, at)

    monkeypatch.setattr(optimise._Run, "evaluate", counted)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr("cagp.choosing.options._SECONDS", 1e6)  # so that 70 are few
    many = np.random.default_rng(2).random((600, 2))
    y = np.sin(6 * many[:, 0]) + many[:, 1] + 0.1 * np.random.default_rng(3).normal(size=600)
    alone = {"kernel": "matern32", "transform": None, "uncertainty": False, "varying": False, "progress": False}
    story = str(cagp.fit(many, y, seconds=70.0, **alone).story)
    few = [size for size in sizes if size < 600]
    assert few
    assert sizes == [*few, *[600] * (len(sizes) - len(few))]
    most = (0.8 * 70.0 - sum(few) / 100) / 6.0  # until nothing more is made of it
    assert most <= len(sizes) - len(few) <= most + 1
    assert "Their fit ended when its time was up" in " ".join(story.split())


def test_a_start_that_few_observations_like_and_all_do_not_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(search: CandidateSearch, candidate: CandidatePrior) -> tuple[float, CandidatePrior]:
        return 0.0, candidate.starting_at(cagp.Prior(cagp.RBF((1e3, 1e3), 1e9), noise_variance=1e-9))

    monkeypatch.setattr(CandidateSearch, "sketched", singular)
    model = cagp.fit(X, Y, kernel="rbf", seconds=NOTHING, progress=False)
    assert np.isfinite(model.predict(X, progress=False).mean).all()


def test_the_default_budget_is_told_and_leaves_nothing_out() -> None:
    story = str(cagp.fit(X, Y, kernel="matern32", progress=False).record.text)
    assert "of a budget of 60 s" in story
    assert "not tried:" not in story


def test_error_bars_are_judged_by_as_many_as_there_is_time_for() -> None:
    many = np.random.default_rng(2).random((2500, 2))
    y = np.sin(6 * many[:, 0]) + many[:, 1] + 0.1 * np.random.default_rng(3).normal(size=2500)
    story = str(cagp.fit(many, y, kernel="matern32", seconds=NOTHING, progress=False).record.text)
    assert "only 200 observations were left out for this." in story
    assert "they are those of the prior" not in story
    plenty = str(cagp.fit(many, y, kernel="matern32", seconds=1e6, varying=False, progress=False).record.text)
    assert "were left out for this" not in plenty


def test_the_budget_grows_slowly_with_the_table() -> None:
    wide = np.random.default_rng(1).random((150, 80))
    alone = {"kernel": "matern32", "mean": "constant", "transform": None, "uncertainty": False, "recalibrate": False}
    story = str(cagp.fit(wide, wide[:, 0], seconds=None, ard=False, varying=False, progress=False, **alone).record.text)
    assert "of a budget of 62.8 s" in story  # 60 (12,000 / 10,000)^¼


def test_the_estimator_and_the_command_have_it(tmp_path: Path) -> None:
    regressor = CAGPRegressor(seconds=NOTHING).fit(X, Y)
    assert "not tried:" in regressor.model_.record.text
    table = tmp_path / "table.csv"
    np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header="a,b,y", comments="")
    arguments = ["fit", table, "--target", "y", "--out", tmp_path / "model", "--no-report", "--seconds", NOTHING]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert "not tried:" in result.output
    assert saving.is_model_folder(tmp_path / "model")
    refused = CliRunner().invoke(app, [*map(str, arguments[:-1]), "-1", "--overwrite"])
    assert refused.exit_code != 0
    assert "seconds must be positive" in refused.output


def test_time_that_is_up_ends_a_climb_after_an_evaluation() -> None:
    with ending_at(clock.now() - 1.0):
        assert Interrupt().requested
        with ending_at(clock.now() + 1000.0):  # one inside another has no more time than that
            assert Interrupt().requested
        result = fit(cagp.Prior(cagp.Matern32((0.1, 0.1)), noise_variance=1.0), X, Y, n_restarts=0)
    assert not Interrupt().requested
    assert len(result.trace) == 1
    assert not result.converged


def test_columns_that_do_not_matter_keep_their_lengthscales() -> None:
    wide = np.random.default_rng(1).random((2100, 4))
    quick = {"kernel": ["matern32", "rbf"], "mean": "constant", "transform": None, "varying": False, "progress": False}
    y = np.sin(6 * wide[:, 0]) + wide[:, 1] + 0.05 * np.random.default_rng(2).normal(size=2100)
    model = cagp.fit(wide, y, recalibrate=False, **quick)
    assert "hardly vary: these lengthscales are those of the first candidate" in model.record.text
    assert model.result is not None
    for place in ("[2]", "[3]"):
        assert any(name.endswith(f"lengthscale{place}") for name in model.result.values)


@pytest.mark.parametrize("seconds", [np.float64(40.0), 40])
def test_any_number_is_taken(seconds: float) -> None:
    assert "of a budget of 40 s" in str(cagp.fit(X, Y, kernel="rbf", seconds=seconds, progress=False).record.text)


def test_the_table_accounts_for_the_time() -> None:
    story = str(cagp.fit(X, Y, like=X[:5] + 0.5, recalibrate=True, progress=False).record.text)
    header, *rows = [line for line in story.splitlines() if line.startswith("  ")]
    end = header.index("seconds") + len("seconds")
    told = [float(line[:end].split()[-1]) for line in rows]
    besides = re.findall(r"([a-z ]+) ([0-9.]+) s", story.split("Besides the candidates: ")[1])
    assert "error bars" in [name.strip() for name, _ in besides]
    told += [float(took) for _, took in besides]
    total = float(story.split("All of it took ")[1].split(" s ")[0])
    assert sum(told) == pytest.approx(total, rel=0.05, abs=0.05 * (len(told) + 10))  # each is rounded


def test_more_seconds_than_usual_find_what_the_usual_ones_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a search that is hurried starts from a few observations."""
    sizes, evaluate = list[int](), optimise._Run.evaluate

    def counted(run: optimise._Run, at: np.ndarray) -> object:
        sizes.append(run.size)
        return evaluate(run, at)

    monkeypatch.setattr(optimise._Run, "evaluate", counted)
    many = np.random.default_rng(2).random((600, 2))
    y = np.sin(6 * many[:, 0]) + many[:, 1] + 0.1 * np.random.default_rng(3).normal(size=600)
    alone = {"kernel": "matern32", "transform": None, "uncertainty": False, "varying": False, "progress": False}
    usual, patient = (cagp.fit(many, y, seconds=seconds, recalibrate=False, **alone) for seconds in (None, 1e6))
    assert patient.prior == usual.prior
    assert set(sizes) == {600}


def test_compiling_is_outside_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if everything had been compiled while the first candidate was fitted, on a clock that moves with the code."""
    X = np.random.default_rng(0).random((60, 1))
    y = np.sin(6 * X[:, 0])
    spent = [0.0]
    monkeypatch.setattr(clock, "compiling", lambda: spent[0])
    real, tried = time.perf_counter, CandidateSearch.tried

    def compiled_first(own: CandidateSearch, candidate: Any, charge: float = 0.0) -> Any:
        spent[0] = 1000.0
        monkeypatch.setattr(time, "perf_counter", lambda: real() + 1000.0)
        return tried(own, candidate, charge)

    monkeypatch.setattr(CandidateSearch, "tried", compiled_first)
    story = " ".join(cagp.fit(X, y, seconds=50, transform=None, progress=False).story.split())
    assert "not tried" not in story.partition("What was chosen")[0].replace("were not tried, because", "")
    assert "Compiling took 1000 s besides, which happens once on a machine." in story


def test_the_seconds_of_compiling_are_counted() -> None:
    compiling = pytest.importorskip("cagp.support.compiling")
    before = compiling.SAYING.seconds
    assert clock.compiling() == before
    compiled = compiling.compiled(eval("lambda x: x[0] + 1.0", {"__name__": "cagp.made"}))
    compiled(np.ones(3))
    assert clock.compiling() > before


def test_a_transform_is_sought_in_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first candidate leaves half of the time to one with a transform, which matters more than its last digits."""
    shares: list[float] = []
    run = CandidateSearch.run

    def noted(search: CandidateSearch, candidate: CandidatePrior) -> Any:
        shares.append(search.share)
        return run(search, candidate)

    monkeypatch.setattr(CandidateSearch, "run", noted)
    cagp.fit(X, np.exp(3 * Y), seconds=30, progress=False)
    cagp.fit(X, np.exp(3 * Y), seconds=60, progress=False)
    assert shares[:2] == [0.3, 0.6]
    assert set(shares[2:]) == {0.6}
