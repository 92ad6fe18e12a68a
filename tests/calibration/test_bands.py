"""The bands hold simultaneously with the probability they state: by enumeration, by simulation, by their order."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

import cagp
from cagp.calibration import ecdf_band, histogram_band
from random_examples import examples

SIMULATIONS = 20_000


def within_noise(share: float, probability: float) -> bool:
    """Whether a share of SIMULATIONS is compatible with a probability, at odds of one in 10,000."""
    low, high = binom.ppf([5e-5, 1 - 5e-5], SIMULATIONS, probability)
    return bool(low <= share * SIMULATIONS <= high)


@pytest.mark.parametrize(("n", "points"), [(37, None), (200, 20), (200, np.array([0.01, 0.3, 0.35, 0.9]))])
def test_ecdf_band_holds_everywhere_at_once(n, points):
    band = ecdf_band(n, points, level=0.9)
    values = np.random.default_rng(0).random((SIMULATIONS, n))
    ecdf = np.stack([(values <= x).mean(axis=1) for x in band.points], axis=1)
    inside = np.array([band.contains(row) for row in ecdf]).mean()
    assert band.coverage >= 0.9
    assert within_noise(inside, band.coverage)


@pytest.mark.parametrize("bins", [20, np.array([0.02, 0.5, 0.18, 0.3])])
def test_histogram_band_holds_in_all_bins_at_once(bins):
    n = 150
    band = histogram_band(n, bins, level=0.9)
    counts = np.random.default_rng(1).multinomial(n, np.diff(band.points), size=SIMULATIONS)
    inside = np.array([band.contains(row) for row in counts]).mean()
    assert band.coverage >= 0.9
    assert within_noise(inside, band.coverage)


def test_histogram_coverage_is_exact_by_enumeration():
    n, p = 9, np.array([0.2, 0.5, 0.3])
    band = histogram_band(n, p, level=0.8)
    total = 0.0
    for first, second in product(range(n + 1), repeat=2):
        counts = (first, second, n - first - second)
        if counts[2] >= 0 and band.contains(counts):
            total += multinomial.pmf(counts, n, p)
    assert band.coverage == pytest.approx(total, rel=1e-12)


def test_ecdf_coverage_is_exact_by_enumeration():
    n, x = 8, np.array([0.3, 0.6])
    band = ecdf_band(n, x, level=0.8)
    total = 0.0
    for first, second in product(range(n + 1), repeat=2):
        rest = n - first - second
        if rest >= 0 and band.contains([first / n, (first + second) / n]):
            ways = comb(n, first) * comb(n - first, second)
            total += ways * 0.3**first * 0.3**second * 0.4**rest
    assert band.coverage == pytest.approx(total, rel=1e-12)


@examples(25)
@given(n=st.integers(1, 400), steps=st.integers(2, 40), level=st.floats(0.5, 0.99))
@example(n=2, steps=11, level=0.5)  # of two values 0.18 are expected below 1/11, where the band allows none
def test_band_lies_between_pointwise_and_bonferroni(n, steps, level):
    for band in (ecdf_band(n, steps, level), histogram_band(n, steps, level)):
        limits = len(band.lower)
        assert (1 - level) / limits <= band.pointwise * (1 + 1e-9)
        assert band.pointwise <= 1 - level + 1e-12
        assert band.coverage >= level
        # a limit that is missed with probability γ/2 < 1/2 is beyond the median, which is less than ln 2 counts from
        # the expectation (Hamza, 1995); the expectation itself may be outside where counts are small
        counts = n if band.expected is band.points else 1
        median = binom.median(n, band.expected * counts / n) / counts
        assert (band.lower <= median + 1e-12).all()
        assert (median <= band.upper + 1e-12).all()
        assert (band.lower - np.log(2) / counts <= band.expected).all()
        assert (band.expected <= band.upper + np.log(2) / counts).all()


def test_a_band_that_leaves_out_an_expectation_has_the_coverage_it_states():
    """Two values and eleven steps: by enumeration of the cells that they are in."""
    band = ecdf_band(2, 11, level=0.5)
    assert (band.expected > band.upper).any()
    inside = sum(
        band.contains([((i < step) + (j < step)) / 2 for step in range(1, 11)]) for i, j in product(range(11), repeat=2)
    )
    assert inside == 63
    assert band.coverage == pytest.approx(63 / 121, rel=1e-12)


def test_large_samples_have_the_coverage_asked_for():
    assert ecdf_band(10_000).coverage == pytest.approx(0.95, abs=1e-3)
    assert histogram_band(10_000).coverage == pytest.approx(0.95, abs=5e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ecdf_band(0), "n must be at least 1"),
        (lambda: ecdf_band(10, level=95), "level must be between 0 and 1"),
        (lambda: ecdf_band(10, [0.5, 0.5]), "increase strictly"),
        (lambda: ecdf_band(10, [0.0, 0.5]), "increase strictly"),
        (lambda: ecdf_band(10, 1), "points must be at least 2"),
        (lambda: histogram_band(10, 1), "bins must be at least 2"),
        (lambda: histogram_band(10, [0.5, 0.4]), "add up to 1"),
        (lambda: histogram_band(10, [1.0, 0.0]), "positive"),
        (lambda: histogram_band(10, 4).contains([1, 2]), "2 values for 4"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(cagp.InputError, match=message):
        call()
