"""A model behind a service: many threads ask one model at once, and each gets what it would get alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cagp

RNG = np.random.default_rng(9)
X = RNG.random((80, 2))
Y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=80)
MIXTURE = cagp.fit(X, Y, kernel=cagp.Matern52(), seed=0)
MODELS = {
    "mixture": MIXTURE,
    "recalibrated": MIXTURE.recalibrated(),
    "transformed": MIXTURE.recalibrated().replace(transform=cagp.transforms.Log()),
    "neighbours": cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.01).condition(
        X, Y, cagp.NearestNeighbours(20)
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_eight_threads_get_the_numbers_of_one(tmp_path: Path, kind: str) -> None:
    """Of a model that nobody has asked before: what is made for the first question is made once, or to no harm."""
    folder = MODELS[kind].save(tmp_path / "model")
    questions = np.random.default_rng(11).random((64, 1, 2))

    def answer(model: cagp.Model, at: np.ndarray) -> np.ndarray:
        found = model.predict(at).observed()
        return np.array([found.mean, found.std, *found.interval(0.95)])

    alone = cagp.load(folder)
    expected = [answer(alone, at) for at in questions]
    together = cagp.load(folder)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: answer(together, at), questions))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("kind", MODELS)
def test_single_points_are_those_of_a_batch(kind: str) -> None:
    questions = np.random.default_rng(10).random((20, 2))
    together = MODELS[kind].predict(questions).observed()
    one_by_one = [MODELS[kind].predict(at[None]).observed() for at in questions]
    np.testing.assert_allclose([each.mean[0] for each in one_by_one], together.mean, rtol=1e-9, atol=1e-11)
    ends = np.array([each.interval(0.95) for each in one_by_one])[:, :, 0]
    np.testing.assert_allclose(ends.T, together.interval(0.95), rtol=1e-9, atol=1e-11)
