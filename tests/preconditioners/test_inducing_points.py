"""Inducing points are drawn from any number of training points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.preconditioners.nystrom import drawn


def test_preconditioner_where_torch_draws_from_fewer_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.multinomial`` refuses more than 2²⁴ categories: as if it did so for 2⁶ already."""
    drawn = torch.multinomial

    def limited(chances: torch.Tensor, *rest: object, **options: object) -> torch.Tensor:
        if chances.shape[-1] > 2**6:
            raise RuntimeError("number of categories cannot exceed 2^6")
        return drawn(chances, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(torch, "multinomial", limited)
    X = np.random.default_rng(0).random((100, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)
    solver = cagp.CalibratedCG(40, cagp.Nystrom(20))
    found = prior.condition(X, X[:, 0], solver).predict(X[:5] + 0.01)
    exact = prior.condition(X, X[:, 0], cagp.Cholesky()).predict(X[:5] + 0.01)
    np.testing.assert_allclose(found.mean, exact.mean, rtol=1e-6)


def test_draws_from_more_than_two_to_the_24() -> None:
    chances = torch.zeros(2**24 + 3)
    chances[-3:] = torch.tensor([1.0, 2.0, 3.0])
    found = drawn(chances, 3, torch.Generator().manual_seed(0))
    assert sorted(found.tolist()) == [2**24, 2**24 + 1, 2**24 + 2]


def test_draws_follow_the_chances() -> None:
    chances = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    first = torch.stack([drawn(chances, 2, generator) for _ in range(20_000)])
    assert bool((first[:, 0] != first[:, 1]).all())
    share = first[:, 0].bincount(minlength=4) / len(first)
    np.testing.assert_allclose(share, chances / chances.sum(), atol=0.015)
    second = first[first[:, 0] == 3, 1].bincount(minlength=3) / (first[:, 0] == 3).sum()
    np.testing.assert_allclose(second, chances[:3] / chances[:3].sum(), atol=0.025)
