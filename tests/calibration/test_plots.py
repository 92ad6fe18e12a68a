"""What the plots draw is what was computed; nothing global is touched."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import ecdf

import cagp
from cagp.calibration import assess, ecdf_band, histogram_band, plots, score

Z = np.random.default_rng(0).standard_normal(300)
PIT = assess(Z).t


def drawings():
    return {
        "pit_histogram": lambda **k: plots.pit_histogram(PIT, **k),
        "z_histogram": lambda **k: plots.z_histogram(Z, **k),
        "ecdf_difference": lambda **k: plots.ecdf_difference(PIT, **k),
        "coverage_curve": lambda **k: plots.coverage_curve(PIT, **k),
        "reliability": lambda **k: plots.reliability(PIT, PIT > 0.4, **k),
    }


@pytest.mark.parametrize("name", drawings())
def test_every_plot_is_labelled_and_saved(name, tmp_path):
    ax = drawings()[name]()
    assert ax.figure.canvas.manager is None  # pyplot does not know of it
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert len(ax.get_legend().get_texts()) == 3
    for suffix in ("png", "pdf"):
        ax.figure.savefig(tmp_path / f"plot.{suffix}")
        assert (tmp_path / f"plot.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("name", drawings())
def test_every_plot_draws_where_it_is_told(name):
    left, right = Figure().subplots(1, 2)
    assert drawings()[name](ax=right) is right
    assert right.has_data()
    assert not left.has_data()


def stairs(ax):
    return [patch.get_data() for patch in ax.patches]


def test_bands_are_those_of_as_many_independent_values_as_there_are():
    band, *_ = stairs(plots.pit_histogram(PIT, bins=10, independent=75.2))
    assert np.allclose(band.values, 4 * histogram_band(75, 10).upper)
    assert np.allclose(band.baseline, 4 * histogram_band(75, 10).lower)
    wide, usual = (
        plots.coverage_curve(PIT, points=50, independent=n).collections[0].get_paths()[0].vertices for n in (75, None)
    )
    assert np.isin(ecdf_band(75, 50).lower, wide[:, 1]).all()
    assert np.isin(ecdf_band(300, 50).lower, usual[:, 1]).all()
    assert stairs(plots.z_histogram(Z, independent=1e9))[0].values.max() == stairs(plots.z_histogram(Z))[0].values.max()
    with pytest.raises(cagp.InputError, match="independent must be"):
        plots.ecdf_difference(PIT, independent=0)


def test_pit_histogram_shows_counts_and_band():
    band, filled, outline = stairs(plots.pit_histogram(PIT, bins=10, level=0.9))
    expected, _ = np.histogram(PIT, 10, (0, 1))
    reference = histogram_band(300, 10, 0.9)
    assert np.array_equal(filled.values, expected)
    assert np.array_equal(outline.values, expected)
    assert np.array_equal(band.values, reference.upper)
    assert np.array_equal(band.baseline, reference.lower)


def test_z_histogram_keeps_what_lies_beyond_its_axis():
    values = np.array([-50.0, -0.1, 0.1, 7.0, 9.0])
    _, _, outline = stairs(plots.z_histogram(values, bins=8))
    assert outline.values.sum() == 5
    assert outline.values[[0, -1]].tolist() == [1, 2]


def test_ecdf_difference_shows_the_ecdf():
    ax = plots.ecdf_difference(PIT, points=50)
    x, difference = ax.lines[-1].get_data()
    assert np.allclose(difference, ecdf(PIT).cdf.evaluate(x) - x)
    band = ecdf_band(300, 50)
    drawn = ax.collections[0].get_paths()[0].vertices
    assert drawn[:, 1].max() == pytest.approx((band.upper - band.points).max())
    assert drawn[:, 1].min() == pytest.approx((band.lower - band.points).min())


def test_coverage_curve_shows_the_coverage():
    x, shares = plots.coverage_curve(PIT).lines[-1].get_data()
    assert np.allclose(shares, score(np.zeros(300), np.ones(300), Z).coverage(x))


def test_result_plots_itself():
    result = assess(2 * Z)
    left, right = result.plot()
    assert left.figure is right.figure
    assert "overconfident" in left.get_title()
    axes = Figure().subplots(1, 2)
    assert result.plot(axes) == tuple(axes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.pit_histogram([0.5, 1.5]), "pit must lie in"),
        (lambda: plots.pit_histogram(PIT, bins=1), "bins must be at least 2"),
        (lambda: plots.ecdf_difference([]), "at least 1"),
        (lambda: plots.coverage_curve(PIT, level=2.0), "level must be between"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(cagp.InputError, match=message):
        call()


def test_reliability_shows_shares_and_what_chance_allows():
    """Events that do happen as often as promised lie in the band 95 times of 100; those half as probable do not."""
    rng, inside, found = np.random.default_rng(3), [], []
    for _ in range(40):
        promised = rng.random(400)
        for each, probability in ((inside, promised), (found, promised / 2)):
            ax = plots.reliability(promised, rng.random(400) < probability, bins=8)
            x, share = ax.lines[-1].get_data()
            low, high = np.array([bar[:, 1] for bar in ax.collections[0].get_segments()]).T
            each.append(((low <= share) & (share <= high)).all())
    assert np.mean(inside) > 0.85
    assert np.mean(found) < 0.01
    place = np.minimum((promised * 8).astype(int), 7)
    np.testing.assert_allclose(x, [promised[place == i].mean() for i in range(8)])
    ax = plots.reliability([0.0, 0.02, 1.0, 0.97], [False, True, 1, 1.0])  # empty bins are left out
    np.testing.assert_allclose(ax.lines[-1].get_data(), [[0.01, 0.985], [0.5, 1.0]])


def test_reliability_refuses():
    for promised, happened, words in (
        ([0.5, 1.2], [0, 1], r"promised must lie in \[0, 1\], got 1.2 at index 1"),
        ([0.5, 0.2], [0, 0.3], "true or false, 1 or 0, got 0.3"),
        ([0.5, 0.2], [True], "happened"),
    ):
        with pytest.raises(cagp.InputError, match=words):
            plots.reliability(promised, happened)
