"""The scoreboard: splits, the oracle, a straight line, the hash of the protocol, verdicts, and its page."""

from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import cagp
from cagp.calibration import score
from cagp.datasets import DataError
from cagp_studies import Record, run_study, scoreboard_results
from cagp_studies.problem import Problem
from cagp_studies.scoreboard import Scoreboard, ScoreboardConfig, _digest, fit_and_predict
from cagp_studies.scoreboard_results import (
    AVERAGES,
    BLIND,
    LEVELS,
    LINEAR,
    ORACLE,
    OURS,
    Other,
    findings,
    protocol,
    remarks,
    verdicts,
)
from cagp_studies.scoreboard_sets import SETS, Matern, ScoredSet, _fold
from tiny import both

NOISE = 0.04
PRIOR = cagp.Prior(Matern(0.2, 1.5, 0.6), mean=cagp.Zero(), noise_variance=NOISE)


def drawn(part: int, seed: int) -> Problem:
    """A field with the covariance of ``PRIOR``: 50 places to fit to, 30 to predict, one of which nobody knows."""
    rng = np.random.default_rng([seed, part, 7])
    X = rng.random((80, 2))
    y = np.linalg.cholesky(covariance(X, X) + NOISE * np.eye(80)) @ rng.standard_normal(80)
    truth = y[50:].copy()
    truth[3] = np.nan
    return Problem(X[:50], y[:50], X[50:], truth)


def covariance(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A Matérn covariance by scikit-learn, whose lengthscale is √(2ν) times ours."""
    from sklearn.gaussian_process.kernels import Matern as Theirs

    return 1.5 * np.asarray(Theirs(0.2 * 1.2**0.5, nu=0.6)(A, B))


class Tiny(Scoreboard):
    scales = both(ScoreboardConfig(("made", "jura"), rows=60))  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def made_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A set of the test's own; no file of the machine is found."""
    monkeypatch.setitem(SETS, "made", ScoredSet("a made field", drawn, 2, "draws", oracle=PRIOR))  # type: ignore[arg-type]
    monkeypatch.setenv("CAGP_DATA", str(tmp_path))
    monkeypatch.setenv("CAGP_CACHE", str(tmp_path))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Record, pd.DataFrame]:
    monkeypatch.setattr("cagp_studies.runner._save_figure", lambda folder, name, drawing: drawing.figure.canvas.draw())
    record = run_study(Tiny(), tmp_path / "out", show=False)
    return record, pd.read_csv(tmp_path / "out" / "scoreboard" / "table.csv", dtype={"data": str})


def rows(name: str, what: str, crps: list[float], **more: Any) -> list[dict[str, Any]]:
    """Rows of the table, one a part, with these CRPS; all other averages are 1."""
    numbers = {**dict.fromkeys(AVERAGES, 1.0), **LEVELS, **more}
    facts = {"seed": 0, "train": 10, "test": 5, "data": "d", "options": "seed=0", "date": "2026-01-01", "model": "m"}
    timed = {"clock": 2.0, "processor": 1.0, "budget": 60.0}
    return [
        {"set": name, "part": part, "what": what, **facts, **timed, **numbers, "crps": value}
        for part, value in enumerate(crps)
    ]


def test_the_study(made: tuple[Record, pd.DataFrame]) -> None:
    record, table = made
    assert list(table["what"]) == 2 * [OURS, ORACLE, LINEAR]  # jura has no file here
    assert "Jura, cadmium" in record.remarks[-1]
    assert (table["test"] == 29).all()
    for part in range(2):
        problem = drawn(part, 0)
        known = np.isfinite(problem.truth)
        line = table[(table["part"] == part) & (table["what"] == LINEAR)].iloc[0]
        A, A_test = (np.column_stack([X, np.ones(len(X))]) for X in (problem.X, problem.X_test))
        normal = np.linalg.solve(A.T @ A, A.T @ problem.y)
        spread = np.sqrt(np.square(problem.y - A @ normal).sum() / (50 - 3))
        expected = score((A_test @ normal)[known], np.full(29, spread), problem.truth[known])
        assert [line[name] for name in AVERAGES] == pytest.approx([getattr(expected, name) for name in AVERAGES])
        oracle = table[(table["part"] == part) & (table["what"] == ORACLE)].iloc[0]
        G = covariance(problem.X, problem.X) + NOISE * np.eye(50)
        V = covariance(problem.X_test, problem.X)
        variance = 1.5 + NOISE - np.einsum("ij,ji->i", V, np.linalg.solve(G, V.T))
        mean = V @ np.linalg.solve(G, problem.y)
        expected = score(mean[known], variance[known] ** 0.5, problem.truth[known])
        for name in AVERAGES:
            assert oracle[name] == pytest.approx(getattr(expected, name), rel=1e-6)
        assert oracle["holds_80"] == pytest.approx(expected.coverage(0.8))
    scores, oracle_table = record.comparisons
    crps = table.loc[table["what"] == OURS, "crps"]
    assert scores.rows[0][:3] == ("a made field", "50 → 29", "2 draws")
    value, _, error = scores.rows[0][3].split()
    assert float(value) == pytest.approx(crps.mean(), abs=crps.sem())
    assert float(error) == pytest.approx(crps.sem(), rel=0.06)  # with two digits
    assert oracle_table.rows[0][3] == ORACLE
    assert "QUICK" in scores.caption
    assert protocol(table) in scores.caption


def test_no_test_value_reaches_the_fit() -> None:
    assert list(inspect.signature(fit_and_predict).parameters) == ["chosen", "X", "y", "X_test", "seed"]


def test_the_options_of_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults, the places to predict in gaps, the globe, the seed, and seconds that do not run out."""
    asked: dict[str, Any] = {}

    class Stop(Exception):
        pass

    def fit(X: object, y: object, **options: Any) -> None:
        asked.update(options)
        raise Stop

    monkeypatch.setattr("cagp_studies.scoreboard.cagp.fit", fit)
    problem = drawn(0, 0)
    for gaps, globe in ((False, None), (True, (0, 1))):
        asked.clear()
        with pytest.raises(Stop):
            fit_and_predict(ScoredSet("", drawn, gaps=gaps, globe=globe), problem.X, problem.y, problem.X_test, 4)
        expected = {"progress", "seed", "seconds"} | ({"like", "globe"} if gaps else set())
        assert set(asked) == expected
        assert (asked["seed"], asked["seconds"]) == (4, 1800.0)
        assert asked.get("globe") == globe
        assert not gaps or asked["like"] is problem.X_test


def test_folds_hold_out_every_row_once() -> None:
    X, y = np.arange(23.0)[:, None], np.arange(23.0)
    held = [_fold(X, y, 5, part, 0) for part in range(5)]
    assert sorted(np.concatenate([each.truth for each in held])) == list(range(23))
    assert all(len(each.y) + len(each.truth) == 23 for each in held)
    assert not np.array_equal(held[0].truth, _fold(X, y, 5, 0, 1).truth)


@pytest.mark.parametrize(("order", "theirs"), [(0.5, cagp.Matern12), (1.5, cagp.Matern32), (2.5, cagp.Matern52)])
def test_a_matern_of_any_order(order: float, theirs: Any) -> None:
    X = torch.from_numpy(np.random.default_rng(0).random((20, 2)))
    expected = theirs(0.3 * (2 * order) ** 0.5, variance=1.7)(X, X)
    torch.testing.assert_close(Matern(0.3, 1.7, order)(X, X), expected, rtol=1e-10, atol=1e-12)


def test_the_hash_sees_what_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame(rows("made", OURS, [0.5, 0.6]) + rows("made", LINEAR, [2.0, 2.0]))
    same = protocol(table)
    assert len(same) == 12
    assert protocol(table.assign(crps=1.0, processor=9.0, date="2027-01-01", model="other").iloc[::-1]) == same
    changes: list[dict[str, Any]] = [
        {"seed": 1}, {"options": "seed=0, like"}, {"data": "e"}, {"train": 9}, {"test": 4}, {"set": "jura"},
    ]  # fmt: skip
    others = [protocol(table.assign(**change)) for change in changes] + [protocol(table[table["part"] == 0])]
    with monkeypatch.context() as patch:
        patch.setattr(scoreboard_results, "LEVELS", {"holds_50": 0.5})
        others.append(protocol(table))
    with monkeypatch.context() as patch:
        patch.setitem(SETS, "made", ScoredSet("", drawn))  # type: ignore[arg-type]
        others.append(protocol(table))
    assert len({same, *others}) == 1 + len(others)


def test_the_digest_sees_every_number() -> None:
    problem = drawn(0, 0)
    found = {_digest(problem)}
    for name in ("X", "y", "X_test", "truth"):
        values = getattr(problem, name).copy()
        values.flat[0] = np.nextafter(values.flat[0], 9.0)
        found.add(_digest(Problem(**{**vars(problem), name: values})))
    assert len(found) == 5


def test_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        Other("first", {"crps": 0.6, "rmse": 0.9}),
        Other("second", {"crps": 0.5}),
        Other(BLIND, {"rmse": 1.001}),
        Other(BLIND, {}, crps_of_oracle=1.5),
    ]
    monkeypatch.setattr(scoreboard_results, "OTHERS", {"made": others})
    table = pd.DataFrame(
        rows("made", OURS, [0.5, 0.6], holds_95=0.9)
        + rows("made", ORACLE, [0.4, 0.4])
        + rows("made", LINEAR, [2.0, 2.0])
    )
    found = verdicts(table)
    assert list(found[["score", "who", "verdict"]].itertuples(index=False, name=None)) == [
        ("crps", ORACLE, "worse"),
        ("crps", "second", "worse"),  # the best of those published
        ("rmse", BLIND, "even"),
        ("rmse", "first", "worse"),
        ("crps", BLIND, "better"),
    ]
    assert found["value"].tolist() == pytest.approx([0.4, 0.5, 1.001, 0.9, 0.6])
    assert found["change"].tolist() == pytest.approx([0.375, 0.1, -0.001, 1 / 9, -1 / 12], abs=1e-4)
    said = findings(table)
    assert said[2].startswith("**Worse than the best published figure**: a made field, CRPS 0.55 (0.5, +10.0%); ")
    assert said[3] == "**Better than 0.2.0, which was blind**: a made field, CRPS 0.55 (0.6, -8.3%)."
    assert said[4].endswith(": nowhere.")
    assert said[-1].endswith(": a made field (90.0% of 5).")


def test_fits_beyond_the_default_budget_are_named() -> None:
    table = pd.DataFrame(rows("made", OURS, [1.0, 1.0]))
    assert "default budget" not in " ".join(remarks(table, ["made"], whole=True))
    table.loc[1, "processor"] = 61.0
    assert "a made field, part 2." in remarks(table, ["made"], whole=True)[-1]


def test_what_is_missing_is_said() -> None:
    table = pd.DataFrame(rows("made", OURS, [1.0]))
    assert "Not run" not in " ".join(remarks(table, ["made"], whole=False))
    assert remarks(table, ["made", "jura"], whole=True)[-1].endswith(": a made field (1 of 2 draws); Jura, cadmium.")


def test_the_first_part_of_every_set_is_run_first(tmp_path: Path) -> None:
    (tmp_path / "meuse.csv").touch()
    found = list(Scoreboard().pieces(ScoreboardConfig(("made", "meuse", "jura"))))
    assert found == ["made-00", "meuse-00", "made-01", "meuse-01", "meuse-02", "meuse-03", "meuse-04"]


def test_a_file_of_other_content_is_refused(tmp_path: Path) -> None:
    assert not SETS["jura"].here()
    (tmp_path / "jura.csv").write_text("set,Xloc,Yloc,Cd\n")
    assert SETS["jura"].here()
    with pytest.raises(DataError, match=r"jura\.csv is not the published file"):
        SETS["jura"].problem(0, 0)


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maker() -> Any:
    path = Path(__file__).parents[2] / "docs" / "make_scoreboard.py"
    spec = importlib.util.spec_from_file_location("make_scoreboard", path)
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    return maker


def test_the_page_has_the_numbers_of_the_run(maker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SETS, "made")  # type: ignore[arg-type]
    page, found = maker.PAGE.read_text(encoding="utf-8"), json.loads(maker.RESULTS.read_text(encoding="utf-8"))
    written = maker.between_marks(page, maker.parts(found))
    assert written == page, "python docs/make_scoreboard.py --page writes it anew"
    assert protocol(maker.fits(found)) in page


@pytest.mark.parametrize(
    "names",
    [("jura", "meuse", "concrete"), pytest.param(tuple(SETS), marks=pytest.mark.slow)],
    ids=["small", "all"],
)
def test_the_splits_are_those_of_the_page(
    names: tuple[str, ...], maker: Any, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who changes a set, a split or a seed has another protocol, and must run all of it again."""
    monkeypatch.setenv("CAGP_DATA", str(data_folder))
    own = maker.fits(json.loads(maker.RESULTS.read_text(encoding="utf-8")))
    for row in own[(own["what"] == OURS) & own["set"].isin(names)].itertuples():
        assert _digest(SETS[row.set].problem(row.part, row.seed)) == row.data, (row.set, row.part)
