"""A model made compact predicts as the whole one does, from fewer components, and says how nearly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cagp
from cagp.errors import InputError
from cagp.predicting.compacting import essential
from cagp.predicting.distributions import NormalMixture
from cagp.support.interrupt import Interrupt

RNG = np.random.default_rng(5)
X = RNG.random((60, 2))
y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * RNG.normal(size=60)
X_TEST = RNG.random((200, 2))
FITTED = cagp.fit(X, y, kernel=cagp.Matern32(), seed=0)
DRAWN = cagp.choosing.integrated(FITTED.prior, X, y)  # all components that were drawn
MODEL = FITTED.replace(components=DRAWN.components, weights=DRAWN.weights)


def ends(model: cagp.Model) -> np.ndarray:
    """Medians and ends of intervals of f and of observations (2, 3, T)."""
    prediction = model.predict(X_TEST)
    return np.array([[each.median, *each.interval(0.95)] for each in (prediction, prediction.observed())])


@pytest.mark.parametrize("transform", [None, cagp.transforms.Log()], ids=["plain", "transformed"])
@pytest.mark.parametrize("recalibrated", [False, True], ids=["prior", "recalibrated"])
def test_it_predicts_what_the_whole_predicts(tmp_path: Path, transform: object, recalibrated: bool) -> None:
    whole = MODEL.recalibrated() if recalibrated else MODEL
    some = whole.compact(like=X_TEST)
    assert 1 < len(some.components) < len(whole.components) / 1.5
    plain = MODEL.predict(X_TEST)
    away = np.abs(ends(some.replace(margins=None)) - ends(MODEL)) / np.array([[plain.std], [plain.observed().std]])
    assert away.max() <= 0.1
    assert f"move by {away.max():.2g} standard deviations" in " ".join(some.story.split())
    assert f"{len(some.components)} of {len(whole.components)} components are left" in some.story
    assert some.components[0] is whole.components[0]
    np.testing.assert_array_equal(some.predict(X_TEST).factor > 0, True)
    np.testing.assert_allclose(some.predict(X_TEST).factor, whole.predict(X_TEST).factor, rtol=1e-12)
    changed = some.replace(transform=transform)
    again = cagp.load(changed.save(tmp_path / "model"))
    np.testing.assert_allclose(ends(again), ends(changed), rtol=1e-9)
    assert again.story == changed.story


def test_components_that_are_alike_are_one() -> None:
    part = cagp.Prior(cagp.RBF(0.4), noise_variance=0.01).condition(X, y).components[0]
    whole = cagp.Model([part, part, part], [0.5, 0.3, 0.2])
    some = whole.compact(tolerance=1e-9)
    assert some.weights.tolist() == [1.0]
    np.testing.assert_allclose(ends(some), ends(whole), rtol=1e-9)
    assert some.compact().components == some.components


FAR = np.array([[40.0, -30.0]])


def of_two(first: cagp.Prior, second: cagp.Prior) -> cagp.Model:
    parts = [each.condition(X, y).components[0] for each in (first, second)]
    return cagp.Model(parts, [0.6, 0.4])


def test_components_that_differ_far_away_stay() -> None:
    """Two kernels that are alike at short distances predict alike next to data, and not where there are none."""
    one, other = cagp.Matern32(0.8, variance=1.0), cagp.Matern32(1.6, variance=8.0)
    whole = of_two(cagp.Prior(one, noise_variance=0.01), cagp.Prior(other, noise_variance=0.01))
    assert len(whole.compact(like=X, tolerance=0.3).components) == 1
    assert len(whole.compact(tolerance=0.3).components) == 2


def test_components_that_differ_in_noise_alone_stay() -> None:
    whole = of_two(*(cagp.Prior(cagp.Matern32(0.5), noise_variance=noise) for noise in (0.01, 4.0)))
    assert len(whole.compact(like=FAR).components) == 2


def test_a_first_component_that_others_outweigh_is_tied_with_them() -> None:
    """All of the spread is in components that differ from the first: still no more than are needed."""
    means = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    order = torch.tensor([8, 0, 1, 2, 3, 4, 5, 6, 7])  # the first is at one end of them
    whole = NormalMixture(means[order], torch.ones(9, 1, dtype=torch.float64), torch.full((9,), 1 / 9).double())
    counts = []
    for tolerance in (0.02, 0.1, 0.4):
        kept, weights, moved = essential(whole, tolerance)
        some = NormalMixture(whole.means[kept], whole.variances[kept], torch.from_numpy(weights))
        quantiles = torch.tensor([0.025, 0.5, 0.975], dtype=torch.float64)
        away = ((some.quantiles(quantiles) - whole.quantiles(quantiles)) / whole.std).abs().max()
        assert moved == pytest.approx(float(away), rel=1e-9)
        assert moved <= tolerance
        assert kept[0] == 0
        assert weights[0] == weights.max()
        counts.append(len(kept))
    assert counts[0] > counts[1] >= counts[2] > 1, counts
    assert counts[1] < len(means)


def test_nothing_lies_between_yes_and_no(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    predict = cagp.Model.predict

    def noting(self: cagp.Model, X_test: torch.Tensor, **how: Any) -> cagp.Prediction:
        seen.append(X_test.numpy())
        return predict(self, X_test, **how)

    monkeypatch.setattr(cagp.Model, "predict", noting)
    yes = (X[:, :1] > 0.5).astype(float)
    priors = [cagp.Prior(cagp.Matern32(scale), noise_variance=0.01) for scale in (0.5, 1.0)]
    parts = [prior.condition(np.hstack([X, yes]), y).components[0] for prior in priors]
    cagp.Model(parts, [0.6, 0.4]).compact()
    assert np.unique(seen[0][:, 2]).tolist() == [0.0, 1.0]
    assert len(np.unique(seen[0][:, 0])) == 2 * len(X)  # and half-way between the others


def test_what_is_known_for_certain_counts_for_nothing() -> None:
    means = torch.tensor([[0.5, 2.0], [0.5 + 1e-9, 2.01]], dtype=torch.float64)  # rounding errors and a hundredth apart
    variances = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    whole = NormalMixture(means, variances, torch.tensor([0.6, 0.4], dtype=torch.float64))
    kept, weights, moved = essential(whole, 0.1)
    assert kept.tolist() == [0]
    assert weights.tolist() == [1.0]
    assert moved == pytest.approx(0.004, rel=0.01)


def test_ctrl_c_leaves_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interrupt, "requested", True)
    assert MODEL.compact() is MODEL


def test_all_that_matter_stay() -> None:
    some = MODEL.compact(tolerance=1e-12)
    assert len(some.components) == len(MODEL.components)
    np.testing.assert_allclose(some.weights, MODEL.weights, rtol=1e-3)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="tolerance must be positive, got 0"):
        MODEL.compact(tolerance=0)
    with pytest.raises(InputError, match="like has 3 columns"):
        MODEL.compact(like=np.ones((4, 3)))
