"""What is done otherwise among very many observations gives the same, tried on few."""

from __future__ import annotations

import numpy as np
import pytest

import cagp
from cagp.choosing import candidates, search, steps
from cagp.choosing.candidates import in_kind, kinds_of

RNG = np.random.default_rng(0)


def test_models_that_are_made_again_are_those_that_were_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    X = RNG.random((40, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=40)
    options = {"kernel": "matern32", "uncertainty": False, "transform": None, "progress": False}
    kept = cagp.fit(X, y, **options).predict(X)
    monkeypatch.setattr(search, "_KEPT_UP_TO", 0)
    again = cagp.fit(X, y, **options).predict(X)
    np.testing.assert_allclose(again.mean, kept.mean, rtol=1e-9)
    np.testing.assert_allclose(again.std, kept.std, rtol=1e-9)


def test_a_sum_is_as_smooth_as_the_best_single_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[set[str]]()

    def seen(fitted: cagp.kernels.Kernel, kind: str) -> cagp.kernels.Kernel:
        started.append(set(kinds_of(found := in_kind(fitted, kind))))
        return found

    x = RNG.random((200, 1))
    y = cagp.Prior(cagp.RBF(0.2), noise_variance=1.0).sample(x, seed=1)[0] + 0.1 * RNG.normal(size=200)
    options = {"transform": None, "uncertainty": False, "recalibrate": False, "mean": "constant", "progress": False}
    for few, pair in ((0, {"matern52", "matern32"}), (200, {"matern32", "matern12"})):  # at once, nobody knows the best
        monkeypatch.setattr(steps, "EXACT_UP_TO", few)
        monkeypatch.setattr(candidates, "in_kind", seen)
        cagp.fit(x, y, **options)
        assert [each for each in started if len(each) > 1][-1] == pair


@pytest.mark.parametrize(
    ("ended", "pair"),
    [(cagp.Matern12, "32 12"), (cagp.Matern32, "32 12"), (cagp.Matern52, "52 32"), (cagp.RBF, "52 32")],
)
def test_the_pair_of_a_sum(ended: type, pair: str) -> None:
    kernel = cagp.Rotated(ended((0.5, 1.0), 2.0), 20.0) if ended is cagp.RBF else ended((0.5, 1.0), 2.0)
    assert kinds_of(in_kind(kernel, "short and long")) == [f"matern{each}" for each in pair.split()]
