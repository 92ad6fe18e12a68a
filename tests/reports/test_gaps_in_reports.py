"""Held-out rows in gaps are counted by gaps, and pages say so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import cagp
from cagp.fit_report import CheckReport, write_check_report, write_fit_report
from reports.pages import Page


@pytest.fixture(scope="module")
def data() -> tuple[cagp.Model, np.ndarray, np.ndarray]:
    """A model, and held-out rows in twenty-five squares without any observation; errors are larger in some."""
    rng = np.random.default_rng(0)
    X = rng.random((2500, 2)) * 5
    inside = (np.abs(X % 1 - 0.5) < 0.22).all(axis=1)
    prior = cagp.Prior(cagp.Matern32((0.4, 0.4)), noise_variance=0.05)
    y = prior.sample(X, 1, 0)[0] + 0.05**0.5 * rng.normal(size=len(X))
    y[inside] += (0.3 * rng.normal(size=25))[(X[inside] // 1 @ (5, 1)).astype(int)]  # what the model knows nothing of
    return prior.condition(X[~inside], y[~inside], cagp.NearestNeighbours(30)), X[inside], y[inside]


@pytest.fixture(scope="module")
def checked(data: tuple[cagp.Model, np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    model, X, y = data
    return write_check_report(model, tmp_path_factory.mktemp("check"), holdout=(X, y), progress=False)


def test_a_check_counts_gaps(checked: CheckReport) -> None:
    assert checked.data is not None
    n = len(checked.data.z)
    assert 20 < checked.data.worth.mean < 0.25 * n
    assert f"of the {n:,} values in " in checked.data.sentence
    summary = checked.summary()
    assert f"Within a gap errors go together: {n:,} values lie in " in summary
    assert "Coverage differs from gap to gap: in eight of ten among 2" in summary
    assert f"the {n:,} values count like" in summary
    page = checked.path.read_text(encoding="utf-8")
    assert f"{float(f'{min(checked.data.worth.mean, checked.data.worth.spread):.2g}'):g} independent values." in page


def test_scattered_rows_are_counted_as_before(data: tuple[cagp.Model, np.ndarray, np.ndarray], tmp_path: Path) -> None:
    model, _, _ = data
    known, y = np.asarray(model.X), np.asarray(model.y)
    held = np.random.default_rng(1).random(len(y)) < 0.1
    fewer = model.components[0].prior.condition(known[~held], y[~held], cagp.NearestNeighbours(30))
    checked = write_check_report(fewer, tmp_path, holdout=(known[held], y[held]), progress=False)
    assert "gap" not in checked.summary().replace("tmp", "").rsplit("\n", 1)[0]


def test_a_report_leaves_out_whole_gaps(data: tuple[cagp.Model, np.ndarray, np.ndarray], tmp_path: Path) -> None:
    model, X, _ = data
    report = write_fit_report(model, tmp_path, like=X, progress=False)
    assert "Coverage differs from gap to gap: in eight of ten among" in report.finding
    assert "gap to gap" not in write_fit_report(model, tmp_path, progress=False).finding


def test_a_row_that_stands_in_for_several_points_is_listed_once(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((140, 2))
    like = X[np.argsort(np.hypot(*(X - 0.5).T))[:15]]
    kept = X[~(X[:, None] == like).all(axis=2).any(axis=1)]
    model = cagp.fit(kept, np.sin(6 * kept[:, 0]), like=like, kernel="matern32", varying=False, progress=False)
    told = " ".join(model.story.split())
    assert re.search(r"of \d+ of them, which stand in \d+ times for 15 points to be predicted", told)
    write_check_report(model, tmp_path, like=like)
    rows = [row[0] for row in Page(tmp_path / "check.html").tables["points"][1:]]
    assert len(rows) == len(set(rows)) == 10
