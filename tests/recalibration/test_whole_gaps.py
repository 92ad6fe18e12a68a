"""Whole gaps decide whether a recalibration is kept: what single observations teach may be chance there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import cagp
from cagp.choosing import judging
from cagp.left_out import Gaps
from cagp.recalibration import WholeGaps, learn

PRIOR = cagp.Prior(cagp.Matern32((0.2, 0.2)), noise_variance=0.01)
CENTRES = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75], [0.5, 0.5]])


@cache
def places() -> tuple[np.ndarray, np.ndarray]:
    """Those with observations, and those in five discs without any."""
    X = np.random.default_rng(0).random((1000, 2))
    inside = np.linalg.norm(X[:, None] - CENTRES, axis=2).min(axis=1) < 0.1
    return X[~inside], X[inside]


def model_of(seed: int, times: float = 1.0) -> cagp.Model:
    """A field that is so many times as rough as the prior of its model says, with its noise."""
    X, _ = places()
    y = times * np.asarray(PRIOR.sample(X, 1, seed))[0] + 0.1 * times * np.random.default_rng(seed).normal(size=len(X))
    return PRIOR.condition(X, y, cagp.NearestNeighbours(40, shared=False))


def said(seed: int, times: float) -> str:
    like, model = torch.from_numpy(places()[1]), model_of(seed, times)
    whole = WholeGaps.like(model, like, seed)
    assert whole is not None
    return whole.no_better(learn(model, like, 500, seed, progress=False))


def test_error_bars_that_are_right_are_not_changed() -> None:
    assert sum(bool(said(seed, 1.0)) for seed in range(4)) >= 3


@pytest.mark.parametrize("times", [0.3, 3.0])
def test_error_bars_that_are_wrong_are_mended(times: float) -> None:
    assert not any(said(seed, times) for seed in range(2))


def test_intervals_that_hold_too_few_are_mended_whatever_the_crps_says() -> None:
    """Few errors of four standard deviations hardly change the CRPS, and a fifth of the intervals fail."""
    like, model = torch.from_numpy(places()[1]), model_of(0)
    whole = WholeGaps.like(model, like, 0)
    assert whole is not None
    rng = np.random.default_rng(0)
    size = np.where(rng.random(len(whole.found)) < 0.2, 4.0, 0.7)
    wrong = whole.found.mean + whole.found.std * size * rng.choice([-1.0, 1.0], len(size))
    spoilt = replace(whole, found=replace(whole.found, y=wrong))
    assert np.mean(np.abs(spoilt.scores(None)[0]) < 1.96) < 0.85
    assert not spoilt.no_better(learn(model_of(0, 2.0), like, 500, 0, progress=False))


def test_few_gaps_do_not_decide() -> None:
    whole = WholeGaps.like(model_of(0), torch.from_numpy(places()[1]), 0)
    assert whole is not None
    learned = learn(model_of(0), torch.from_numpy(places()[1]), 500, 0, progress=False)
    assert not replace(whole, gaps=Gaps(np.zeros(len(whole.found), dtype=int))).no_better(learned)


def test_the_standard_error_is_that_of_averages_over_gaps() -> None:
    rng, number = np.random.default_rng(0), np.repeat(np.arange(50), 20)
    found = [
        (values.mean(), Gaps(number).standard_error(values))
        for values in (rng.normal(size=50)[number] + rng.normal(size=1000) for _ in range(300))
    ]
    means, errors = np.array(found).T
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(means.std(), rel=0.15)


def test_the_story_tells_why_they_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def suspicious(*given: Any, **options: Any) -> Any:
        return replace(found(*given, **options), failures=("wrong shape",))

    found, model, like = judging.diagnose, model_of(1), places()[1]
    monkeypatch.setattr(judging, "diagnose", suspicious)
    kept, words = judging.judged(model, like)
    assert kept.margins is None
    assert "A recalibration was tried and left out: " in words
    assert "whole gaps, left out at other places, are not clearly predicted better with it." in words
    asked_for, words = judging.judged(model, like, recalibrate=True)
    assert asked_for.margins is not None
    assert "tried and left out" not in words
