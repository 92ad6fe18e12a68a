"""Which fitted candidates predict together, from scores that are made up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cagp.choosing import patterns
from cagp.choosing.scoring import LeftOutScores
from cagp.choosing.steps import weighted

RNG = np.random.default_rng(0)
NOISE = RNG.standard_normal(400)


def fitted(kernel: str, crps: float, noise: float = 0.0, varies: str = "", apart: float = 0.5) -> Any:
    """One whose log scores differ from those of others by about ``apart``: what one foresees another does not."""
    each = crps + noise * np.roll(NOISE, len(kernel))
    scores = LeftOutScores(np.arange(400), each, crps + apart * RNG.standard_normal(400), each)
    candidate = SimpleNamespace(kernel=kernel, varies=varies)
    return SimpleNamespace(candidate=candidate, scores=scores, crps=float(each.mean()))


def chosen(fits: list[Any], crowd: float = 1.0) -> list[str]:
    return [each.candidate.kernel for each, _ in weighted(fits, crowd)]


def test_different_kernels_come_first() -> None:
    fits = [fitted("a", 1.0), fitted("a", 1.001), fitted("b", 1.002), fitted("a", 1.003), fitted("c", 1.004)]
    assert chosen(fits) == ["a", "b", "c"]
    assert chosen(fits[:3]) == ["a", "b", "a"]


def test_patterns_that_do_not_predict_better_are_left_out() -> None:
    plain, patterned = fitted("a", 1.0), fitted("a", 1.001, varies="noise")
    assert chosen([plain, patterned]) == ["a"]
    assert chosen([fitted("a", 1.002), patterned]) == ["a", "a"]
    likelier = fitted("b", 1.001, varies="noise")
    likelier.scores = replace(likelier.scores, log_score=likelier.scores.log_score - 0.3)
    assert chosen([plain, likelier]) == ["a", "b"]


def test_observations_that_err_together_tell_less() -> None:
    fits = [fitted("a", 1.0), fitted("bb", 1.1, noise=0.3)]
    assert chosen(fits) == ["a"]
    fits = [fitted("a", 1.0), fitted("b", 1.001)]
    assert chosen(fits) == ["a", "b"]
    assert chosen(fits, crowd=1000.0) == ["a"]


def test_a_mixture_has_to_pay() -> None:
    assert chosen([fitted("a", 1.0, apart=0.0), fitted("b", 1.0, apart=0.0)]) == ["a"]
    assert chosen([fitted("a", 1.0, apart=0.03), fitted("b", 1.0, apart=0.03)]) == ["a"]


@pytest.mark.parametrize(
    ("before", "after", "crowd", "kept"),
    [(1.0, 0.8, None, True), (1.0, 0.95, None, False), (1.0, 0.8, 2.0, False), (1.0, 0.4, 2.0, True)],
    ids=["better", "not by what it is charged", "in gaps it is charged more", "better in gaps"],
)
def test_patterns_have_to_be_better_after_a_recalibration(
    before: float, after: float, crowd: float | None, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge is 0.1; in gaps that hold two of 2,000 that judge, of 6,000 observations, it counts six times."""
    plain = fitted("a", 1.0)
    plain.prior, patterned = "plain", SimpleNamespace(prior="patterned", varies="noise", crps=0.9)
    patterned.charge = 0.1 if crowd is None else 0.05
    scores = {"plain": before, "patterned": after}
    monkeypatch.setattr(patterns, "_recalibrated_log_score", lambda search, each: scores[each])
    judges = SimpleNamespace(gaps=crowd, crowd=crowd, rows=np.arange(2000))
    search: Any = SimpleNamespace(judges=judges, y=np.zeros(6000), notes=[])
    left: Any = patterned
    assert patterns._is_left_to_recalibration(search, plain, left, 0.0) is not kept
    assert bool(search.notes) is not kept
