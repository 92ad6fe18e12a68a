"""Copies of observations are told from repeated measurements, counts and classes."""

from __future__ import annotations

import numpy as np
import pytest

from cagp.support.repetitions import copies, told_of_copies

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 2)), RNG.normal(size=300)


@pytest.mark.parametrize("again", [3, 30, 300])
def test_rows_that_repeat_another(again: int) -> None:
    rows = RNG.permutation(np.r_[np.arange(300), np.arange(again)])
    number = copies(X[rows], Y[rows].round(2))
    told = told_of_copies(X[rows], Y[rows].round(2))
    if again == 3:
        assert number is None
        assert not told
        return
    assert number is not None
    _, first = np.unique(number, return_index=True)
    np.testing.assert_array_equal(np.sort(rows[first]), np.arange(300))
    np.testing.assert_array_equal(rows[first][number], rows)
    assert f"{again} of the {300 + again} rows" in told
    assert "drop_duplicates()" in told


def test_what_is_no_copy() -> None:
    places = np.repeat(X[:30], 10, axis=0)
    assert copies(places, Y.round(1)) is None  # measured again, and now and then the same
    assert copies(np.r_[X, X[::-1]], np.r_[Y, Y]) is None
    for few in (RNG.poisson(5.0, 300), RNG.integers(3, size=300)):
        assert copies(np.r_[X, X], np.r_[few, few].astype(float)) is None
    assert copies(X, np.zeros(300)) is None
    assert copies(X[:1], Y[:1]) is None
    assert copies(np.zeros((2, 1)), np.zeros(2)) is None


def test_zero_has_no_sign() -> None:
    assert copies(np.array([[0.0], [-0.0], [1.0]]), np.array([2.0, 2.0, 3.0])) is not None
