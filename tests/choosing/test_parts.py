"""Which fitted candidates predict together, from scores that are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from cagp.choosing.scoring import Scored
from cagp.choosing.search import Search

RNG = np.random.default_rng(0)
NOISE = RNG.standard_normal(400)


def fitted(kernel: str, crps: float, noise: float = 0.0, varies: str = "") -> Any:
    each = crps + noise * np.roll(NOISE, len(kernel))
    scores = Scored(np.arange(400), each, each)
    candidate = SimpleNamespace(kernel=kernel, varies=varies)
    return SimpleNamespace(candidate=candidate, scores=scores, crps=float(each.mean()))


def chosen(fits: list[Any], crowd: float = 1.0) -> list[str]:
    search: Any = SimpleNamespace(fits=fits, best=min(fits, key=lambda each: each.crps))
    search.site = SimpleNamespace(crowd=crowd)
    return [each.candidate.kernel for each, _ in Search.parts(search, True)]


def test_different_kernels_come_first() -> None:
    fits = [fitted("a", 1.0), fitted("a", 1.001), fitted("b", 1.002), fitted("a", 1.003), fitted("c", 1.004)]
    assert chosen(fits) == ["a", "b", "c"]
    assert chosen(fits[:3]) == ["a", "b", "a"]


def test_patterns_that_do_not_predict_better_are_left_out() -> None:
    plain, patterned = fitted("a", 1.0), fitted("a", 1.001, varies="noise")
    assert chosen([plain, patterned]) == ["a"]
    assert chosen([fitted("a", 1.002), patterned]) == ["a", "a"]


def test_observations_that_err_together_tell_less() -> None:
    fits = [fitted("a", 1.0), fitted("bb", 1.1, noise=0.3)]
    assert chosen(fits) == ["a"]
    assert chosen(fits, crowd=100.0) == ["a", "bb"]
