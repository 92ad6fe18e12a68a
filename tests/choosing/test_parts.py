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
    [(1.0, 0.8, 1.0, True), (1.0, 0.95, 1.0, False), (1.0, 0.8, 6.0, False), (1.0, 0.4, 6.0, True)],
    ids=["better", "not by what it is charged", "in gaps it is charged more", "better in gaps"],
)
def test_patterns_have_to_be_better_after_a_recalibration(
    before: float, after: float, crowd: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A charge counts as often as there are observations that are left out with one."""
    plain = fitted("a", 1.0)
    plain.prior, patterned = "plain", SimpleNamespace(prior="patterned", varies="noise", crps=0.9)
    patterned.charge = 0.1 if crowd == 1 else 0.05
    scores = {"plain": before, "patterned": after}
    monkeypatch.setattr(patterns, "_recalibrated_log_score", lambda search, each: (scores[each], crowd))
    search: Any = SimpleNamespace(judges=[0], y=np.zeros(6000), notes=[])
    hopeful: Any = [patterned]
    assert patterns._hopeful(search, plain, hopeful, True, 0.0) == (hopeful if kept else [])
    assert bool(search.notes) is not kept


def test_the_best_patterns_are_those_that_are_best_after_the_recalibration(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fitted("a", 1.0)
    plain.prior = "plain"
    kinds: Any = [
        SimpleNamespace(prior=each, varies=each, crps=crps, charge=0.0)
        for each, crps in (("amplitude", 0.99), ("noise", 1.03), ("both", 1.04))
    ]
    scores = {"plain": 2.47, "amplitude": 2.49, "noise": 2.40, "both": 2.44}
    monkeypatch.setattr(patterns, "_recalibrated_log_score", lambda search, each: (scores[each], 1.0))
    search: Any = SimpleNamespace(judges=[0], y=np.zeros(900), notes=[])
    assert [each.varies for each in patterns._hopeful(search, plain, kinds, True, 0.0)] == ["noise", "both"]
    assert [each.varies for each in patterns._hopeful(search, plain, kinds, False)] == ["amplitude"]
    assert sum("was tried and left out" in note for note in search.notes) == 3
