"""The verdict: right for known faults, and rarely wrong without any."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, kstest, norm, ttest_1samp

import cagp
from cagp.calibration import assess


def normal(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


@pytest.mark.parametrize("seed", range(5))
def test_known_faults_get_their_names(seed):
    z = normal(1000, seed)
    assert assess(z).verdict == "calibrated"
    assert assess(z / 0.5**0.5).verdict == "overconfident"  # the posterior's variance halved
    assert assess(z / 2**0.5).verdict == "conservative"  # the posterior's variance doubled
    assert assess(z + 0.3).verdict == "miscalibrated"
    assert assess(2 * z + 1).verdict == "miscalibrated"  # shifted and too narrow: neither word would do
    other_shape = np.random.default_rng(seed).choice([-1.0, 1.0], 1000)
    assert assess(other_shape).verdict == "miscalibrated"


REPETITIONS = [400, pytest.param(3000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("repetitions", REPETITIONS)
@pytest.mark.parametrize("n", [20, 200])
def test_false_alarms_stay_within_the_family_wise_level(n, repetitions):
    level = 0.05
    rng = np.random.default_rng(n)
    alarms = sum(assess(rng.standard_normal(n), level=level).verdict != "calibrated" for _ in range(repetitions))
    assert alarms <= binom.ppf(0.9999, repetitions, level)
    # Bonferroni over three tests, two of them independent: not far below the level either
    assert alarms >= binom.ppf(0.0001, repetitions, 0.6 * level)


@pytest.mark.parametrize("repetitions", REPETITIONS)
def test_false_alarms_at_the_default_level(repetitions):
    rng = np.random.default_rng(5)
    alarms = sum(assess(rng.standard_normal(100)).verdict != "calibrated" for _ in range(repetitions))
    assert 0 < alarms <= binom.ppf(0.9999, repetitions, 0.01)


def test_statistics_agree_with_other_routes():
    z = 1.1 * normal(300) + 0.05
    result = assess(z)
    assert np.allclose(result.t, norm.cdf(z))
    reference = kstest(z, "norm")
    assert result.ks_statistic == pytest.approx(reference.statistic)
    assert result.p_value == pytest.approx(reference.pvalue)
    assert result.z_std == pytest.approx(np.std(z, ddof=1))
    # the mean test is the t test with a known standard deviation of one
    t_test = ttest_1samp(z / np.std(z, ddof=1), 0.0)
    assert result.mean_p_value == pytest.approx(2 * norm.sf(abs(t_test.statistic) * np.std(z, ddof=1)))


def test_spread_test_has_uniform_p_values():
    rng = np.random.default_rng(7)
    p_values = [assess(rng.standard_normal(30)).std_p_value for _ in range(2000)]
    assert kstest(p_values, "uniform").pvalue > 1e-3


def test_words_name_the_fault():
    z = normal(1000)
    assert "too narrow" in assess(2 * z).reason
    assert "too wide" in assess(0.5 * z).reason
    assert "shifted" in assess(z + 1).reason
    both = str(assess(2 * z + 1))
    assert "too narrow" in both
    assert "shifted" in both
    assert "no test rejects" in str(assess(z))
    assert "50% intervals cover 0%" in assess(np.sign(z)).reason
    assert repr(assess(z)).startswith("Assessment('calibrated', n=1000")


def test_result_cannot_be_changed():
    source = normal(10)
    result = assess(source)
    source[0] = 99.0
    assert result.z[0] != 99.0
    with pytest.raises(ValueError, match="read-only"):
        result.z[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        result.t[0] = 1.0


@pytest.mark.parametrize(
    ("z", "level", "message"),
    [
        ([1.0], 0.01, "at least 2"),
        ([1.0, np.nan], 0.01, "NaN"),
        ([[1.0, 2.0]], 0.01, "one dimension"),
        ([1.0, 2.0], 1.0, "level must be between 0 and 1"),
        (["a", "b"], 0.01, "not numeric"),
    ],
)
def test_bad_input_is_refused(z, level, message):
    with pytest.raises(cagp.InputError, match=message):
        assess(z, level=level)


def test_heavy_tails_with_the_right_spread_are_seen():
    z = np.random.default_rng(1).standard_t(3, size=1000) / np.sqrt(3)
    result = assess(z)
    assert result.verdict != "calibrated"
    assert result.coverage_p_value < 1e-4
    t = np.random.default_rng(2).standard_t(4, size=2000)
    shaped = assess(t / t.std())
    assert shaped.verdict == "miscalibrated"
    assert "50% intervals cover" in shaped.reason
