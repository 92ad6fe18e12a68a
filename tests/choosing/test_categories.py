"""Columns of categories, whose features add up to one, and cagp.fit: no trend that they do not determine."""

from __future__ import annotations

import numpy as np
import pytest

import cagp
from cagp.choosing.scoring import alone, clearly_worse
from cagp.choosing.steps import determines_trend

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 60)
HOT = np.eye(3)[CODES]
X = RNG.random((60, 1))
SINGLE = (np.arange(60) == 7.0).astype(float)


@pytest.mark.parametrize(
    ("columns", "determined"),
    [
        (np.hstack([X, HOT[:, 1:]]), True),
        (np.hstack([X, HOT]), False),
        (np.hstack([X, 2 * X]), False),
        (np.hstack([X, np.ones((60, 1))]), False),
        (np.column_stack([X, SINGLE]), False),
        (np.column_stack([X + 1e4, 1e-6 * X**2]), True),
    ],
)
def test_which_columns_determine_a_trend(columns: np.ndarray, determined: bool) -> None:
    design = np.column_stack([np.ones(60), columns])
    ranks = [np.linalg.matrix_rank(np.delete(design / np.abs(design).max(axis=0), i, 0)) for i in range(60)]
    if columns.max() < 1e3:  # the independent route loses digits otherwise
        assert (min(ranks) == design.shape[1]) == determined
    assert determines_trend(columns) == determined


def test_all_categories_at_once() -> None:
    rows, columns = slice(0, 45), np.hstack([X, HOT])
    y = X[:, 0] + CODES + 0.1 * RNG.normal(size=60)
    options = {"uncertainty": False, "recalibrate": False, "progress": False}
    model = cagp.fit(columns[rows], y[rows], kernel="matern32", **options)
    assert "A linear trend was not tried" in model.record.text
    assert np.abs(model.predict(columns).mean - y).mean() < 0.3


@pytest.mark.parametrize("outlier", [0.0, 20.0])
def test_a_trend_that_was_asked_for_is_judged_without_the_only_row_of_a_category(outlier: float) -> None:
    y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(3).normal(size=60) + SINGLE
    y[20] += outlier
    model = cagp.fit(np.column_stack([X, SINGLE]), y, mean="linear", uncertainty=False, seconds=1e6, progress=False)
    assert all(each.crps < 0.1 for each in model.candidates)
    assert "by the CRPS of 59 of them" in " ".join(model.story.split()) or outlier


def test_who_is_alone_in_a_category() -> None:
    only_other = np.where(np.arange(60) == 0, 0.0, 1.0)
    columns = np.column_stack([X, HOT, SINGLE, only_other, np.full(60, 3.0), np.arange(60) < 2])
    design = np.column_stack([np.ones(60), columns])
    rank = np.linalg.matrix_rank(design)
    expected = [i for i in range(60) if np.linalg.matrix_rank(np.delete(design, i, 0)) < rank]
    assert alone(columns).tolist() == expected == [0, 1, 7]
    assert alone(np.delete(HOT, 0, 1)[CODES > 0]).tolist() == []
    only_first = np.concatenate([HOT[CODES > 0], HOT[CODES == 0][:1]])[:, 1:]  # of the level that has no column
    assert alone(only_first).tolist() == [len(only_first) - 1]
    assert len(alone(np.eye(9))) == 0
    assert [len(alone(columns[:n])) for n in (1, 2)] == [0, 0]


@pytest.mark.parametrize("transform", ["auto", "log"])
def test_who_is_alone_in_a_category_does_not_judge(transform: str) -> None:
    """Nothing is known of a category without its only row: through a logarithm its CRPS is beyond all numbers."""
    rng = np.random.default_rng(3)
    rare = np.arange(120) == 7
    x = rng.random((120, 2))
    y = np.exp(9 + np.sin(5 * x[:, 0]) + x[:, 1] + 2 * rare + 0.15 * rng.normal(size=120))
    model = cagp.fit(np.column_stack([x, rare]), y, transform=transform, uncertainty=False, progress=False)
    assert model.transform is not None
    story = " ".join(model.story.split())
    assert "judged by the CRPS of 119 of them" in story
    assert "1 of the observations is the only one of a category" in story
    assert all(each.crps < y.max() for each in model.candidates)


def test_infinite_scores_are_the_worst() -> None:
    finite, infinite = np.ones(10), np.where(np.arange(10) == 3, np.inf, 0.0)
    assert clearly_worse(infinite, finite)
    assert not clearly_worse(finite, infinite)
    assert not clearly_worse(infinite, infinite)
