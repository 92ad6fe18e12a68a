"""Further observations for models of all parts: what is kept, what is said of it, and what comes back from a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp
from cagp.errors import InputError
from cagp.recalibration import Recalibration, learned_in_seconds
from cagp.story import Story, Tried

RNG = np.random.default_rng(0)
X, X_TEST = RNG.random((70, 2)), RNG.random((9, 2))
Y = np.exp(np.sin(5 * X[:, 0]) + 0.1 * RNG.normal(size=70))
PRIOR = cagp.Prior(cagp.Matern32(0.4), mean=cagp.Constant(), noise_variance=1e-3)
OTHER = cagp.Prior(cagp.RBF(0.3, 2.0), mean=cagp.Constant(), noise_variance=2e-3)


def mixture(n: int) -> cagp.Model:
    both = [prior.condition(X[:n], Y[:n], "cholesky") for prior in (PRIOR, OTHER)]
    return cagp.Model([model.components[0] for model in both], [0.3, 0.7])


def test_a_mixture_grows_in_all_of_its_models(tmp_path: Path) -> None:
    found, wanted = mixture(50).with_more(X[50:], Y[50:]), mixture(70).predict(X_TEST)
    assert_allclose(found.predict(X_TEST).mean, wanted.mean, rtol=1e-9)
    assert_allclose(found.predict(X_TEST).std, wanted.std, rtol=1e-9)
    noisy = mixture(50).with_more(X[50:], Y[50:], noise_variance=0.5)
    assert [each.prior.noise_variance[49:51].tolist() for each in noisy.components] == [[2e-3, 0.5], [1e-3, 0.5]]
    loaded = cagp.load(noisy.save(tmp_path / "mixture"))
    assert_allclose(loaded.predict(X_TEST).mean, noisy.predict(X_TEST).mean, rtol=1e-9)


def test_a_recalibration_is_learned_anew(tmp_path: Path) -> None:
    """From all observations, as if nothing had been learned before; of a loaded folder as well."""
    model = mixture(50).recalibrated(progress=False)
    wanted = mixture(70).recalibrated(progress=False)
    saved = cagp.saving.read(model.save(tmp_path / "before")).with_more(X[50:], Y[50:])
    cagp.saving.write(saved, tmp_path / "after")
    for found in (model.with_more(X[50:], Y[50:]), cagp.load(tmp_path / "after")):
        assert found.guarantee == wanted.guarantee
        assert found.margins.in_words == wanted.margins.in_words
        assert_allclose(found.predict(X_TEST).std, wanted.predict(X_TEST).std, rtol=1e-7)
    few = model.margins.after(0)
    assert learned_in_seconds(few, cagp.Cholesky(), 2, 1000)
    assert not learned_in_seconds(few, cagp.Cholesky(), 2, 3000)
    assert learned_in_seconds(few, cagp.NearestNeighbours(), 2, 10**6)
    assert not learned_in_seconds(replace(few, single=10_001), cagp.NearestNeighbours(), 2, 10**6)


def test_one_of_many_observations_teaches_nothing_anew() -> None:
    model = PRIOR.condition(np.linspace(0, 9, 300)[:, None], np.sin(np.arange(300)), "cholesky")
    model = model.recalibrated(progress=False)
    one = model.with_more([[9.1]], [0.0])
    assert one.margins.added == 1
    assert one.margins.bands == model.margins.bands
    three = one.with_more([[9.2], [9.3]], [0.0, 0.1])  # a hundredth of those that it was learned from
    assert three.margins.added == 0
    assert three.margins.single == 303


def test_a_recalibration_for_certain_points_is_kept_and_says_so(tmp_path: Path) -> None:
    model = mixture(50).recalibrated(like=X_TEST, progress=False)
    more = model.with_more(X[50:60], Y[50:60]).with_more(X[60:], Y[60:])
    before, after = model.margins, more.margins
    assert isinstance(before, Recalibration)
    assert isinstance(after, Recalibration)
    assert after.bands == before.bands
    assert_allclose(more.predict(X_TEST).mean, mixture(70).predict(X_TEST).mean, rtol=1e-9)
    by_hand = mixture(70).replace(margins=before)
    assert_allclose(more.predict(X_TEST).std, by_hand.predict(X_TEST).std, rtol=1e-9)
    assert after.in_words == before.in_words + " (observations added since: 20)"
    assert "Observations added to the model since this was learned: 20." in str(more.guarantee)
    assert more.predict(X_TEST).observed().guarantee == more.guarantee
    assert more.guarantee.kind == "empirical"
    assert "added" not in str(model.guarantee)
    loaded = cagp.load(more.save(tmp_path / "recalibrated"))
    assert loaded.guarantee == more.guarantee
    assert_allclose(loaded.predict(X_TEST).std, more.predict(X_TEST).std, rtol=1e-9)


def test_a_transform_is_of_the_new_observations_too() -> None:
    prior = PRIOR.transformed("log")
    model = prior.condition(X[:50], Y[:50], "cholesky")
    found, wanted = model.with_more(X[50:], Y[50:]).predict(X_TEST), prior.condition(X, Y, "cholesky").predict(X_TEST)
    assert_allclose(found.mean, wanted.mean, rtol=1e-9)
    assert_allclose(found.std, wanted.std, rtol=1e-8)
    with pytest.raises(InputError, match="positive"):
        model.with_more(X[50:52], [1.0, -1.0])
    with pytest.raises(InputError, match="y has 1 values for 2 training points"):
        model.with_more(X[50:52], [1.0])


def test_the_story_goes_on(tmp_path: Path) -> None:
    inside = PRIOR.transformed("log").condition(X[:50], Y[:50], "cholesky").recalibrated(progress=False)
    tried = Tried("matern32, constant", 0.1, -0.2, 1.0, 1.0)
    result: Any = object()  # what the fit found is passed on, whatever it is
    model = inside.replace(story=Story("One candidate was fitted.", (tried,)), result=result)
    more = model.with_more(X[50:], Y[50:])
    assert more.story.startswith(model.story)
    assert "Observations added since: 20." in more.story
    assert more.candidates == model.candidates
    assert more.result is result
    assert more.prior == model.prior
    assert "since this was learned" not in str(more.guarantee)
    loaded = cagp.load(more.save(tmp_path / "fitted"))
    assert loaded.story == more.story
    assert_allclose(loaded.predict(X_TEST).mean, more.predict(X_TEST).mean, rtol=1e-9)
    assert "added" not in cagp.load(model.save(tmp_path / "before")).story


def test_what_conformal_intervals_promise_does_not_outlive_the_data() -> None:
    model = PRIOR.condition(X[:40], Y[:40], "cholesky").recalibrated(calibration=(X[40:60], Y[40:60]), progress=False)
    with pytest.raises(InputError, match=r"before calibrating: model\.replace\(margins=None\)\.with_more"):
        model.with_more(X[60:], Y[60:])
