"""Left-out observations recalibrated by one another: none judges itself, and what is wrong is mended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cagp
from cagp.calibration import evaluate
from cagp.errors import InputError
from cagp.recalibration import cross_recalibrated, learned_from


def uneven(n: int = 800, seed: int = 0) -> cagp.Model:
    """Noise that is six times as large on the right as the prior says, and a third of it on the left."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 1))
    noise = np.where(X[:, 0] > 0.5, 0.6, 0.03)
    y = np.sin(8 * X[:, 0]) + noise * rng.normal(size=n)
    return cagp.Prior(cagp.Matern52(0.3), noise_variance=0.01).condition(X, y, cagp.Cholesky())


def test_it_mends_what_differs_from_place_to_place() -> None:
    model = uneven()
    found = model.left_out()
    mended = cross_recalibrated(found, model.components[0], 0)
    before, after = found.scores, evaluate(mended, found.y, "observed")
    right = found.X[:, 0] > 0.5
    for side in (right, ~right):
        assert not 0.7 < np.sqrt(np.square(before.z[side]).mean()) < 1.4
        assert np.sqrt(np.square(after.z[side]).mean()) == pytest.approx(1, abs=0.2)
    for level in (0.5, 0.8, 0.95):
        assert after.coverage(level) == pytest.approx(level, abs=0.04)
    assert after.crps < 0.95 * before.crps
    assert after.nll < before.nll - 1
    np.testing.assert_array_equal(mended.mean, found.mean)


def test_no_observation_judges_itself() -> None:
    model = uneven(200)
    found = model.left_out()
    factor = cross_recalibrated(found, model.components[0], 0).factor
    y = found.y.copy()
    y[17] += 100
    moved = cross_recalibrated(replace(found, y=y), model.components[0], 0).factor
    assert moved[17] == factor[17]
    assert (moved != factor).sum() > 20  # others learn from it


def test_bands_go_by_distance_where_gaps_were_left_out() -> None:
    model = uneven(400)
    assert len(learned_from(model.left_out(), model.components[0], 0).bands) == 1
    gaps = model.left_out(like=np.linspace(-0.2, 1.3, 60)[:, None])
    bands = learned_from(gaps, model.components[0], 0).bands
    distances = [band.distance for band in bands]
    assert len(bands) > 1
    assert distances == sorted(distances)
    assert sum(len(band.z) for band in bands) == len(gaps)
    assert min(len(band.z) for band in bands) >= 20
    few = model.left_out(n=12)
    with pytest.raises(InputError, match="12 left-out observations are too few"):
        learned_from(few, model.components[0], 0)
