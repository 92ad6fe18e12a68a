"""A sample of terms stands for all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.gram.previous_neighbours import NONE, previous_neighbours
from cagp.hyperparameters import fit, log_likelihood
from cagp.hyperparameters.terms import DEFAULT_TERMS, Terms, sample_terms, terms_wanted

PRIOR = cagp.Prior(cagp.Matern32(0.2), mean=cagp.Constant(), noise_variance=0.05)


@pytest.fixture(scope="module")
def field() -> tuple[np.ndarray, np.ndarray]:
    """1,500 noisy observations of a draw from a Matérn 3/2 process."""
    rng = np.random.default_rng(2)
    X = rng.random((1500, 2))
    G = cagp.Matern32(0.15, 2.0)(X) + 0.05 * np.eye(1500)
    return X, np.linalg.cholesky(G) @ rng.standard_normal(1500)


def test_weights_are_those_of_horvitz_and_thompson() -> None:
    """Over many samples every place is counted once on average, and every sample has the size asked for."""
    n, size, draws = 300, 40, 4000
    counted = np.zeros(n)
    generator = np.random.default_rng(0)
    for _ in range(draws):
        sample = sample_terms(n, size, generator)
        assert len(sample.places) == len(np.unique(sample.places)) == size
        assert (np.diff(sample.places) > 0).all()
        counted[sample.places] += sample.weights
    weight = 1 / np.interp(np.arange(n), sample.places, 1 / sample.weights)
    error = np.sqrt(np.maximum(weight - 1, 0) / draws)
    assert (np.abs(counted / draws - 1) < 5 * error + 0.01).all()


def test_as_many_terms_at_every_scale() -> None:
    places = sample_terms(100_000, 3000, np.random.default_rng(0)).places
    halves = [((places >= stop // 2) & (places < stop)).sum() for stop in (100_000, 50_000, 25_000, 12_500)]
    assert max(halves) - min(halves) <= 3
    assert (places[:300] == np.arange(300)).all()  # the first ones are certain


def test_all_terms_where_there_are_few() -> None:
    sample = sample_terms(50, 60, np.random.default_rng(0))
    assert (sample.places == np.arange(50)).all()
    assert (sample.weights == 1).all()
    assert terms_wanted(None, 100) == terms_wanted("all", 100) == terms_wanted(1000, 100) == 100
    assert terms_wanted(None, 10**6) == DEFAULT_TERMS


@pytest.mark.parametrize(("terms", "message"), [("some", '"all", or None'), (1, "terms must be at least 2")])
def test_bad_terms_are_refused(terms: object, message: str) -> None:
    with pytest.raises(cagp.InputError, match=message):
        PRIOR.fit(np.zeros((3, 1)), np.zeros(3), terms=terms)


def test_the_estimate_of_the_likelihood_is_unbiased(field: tuple[np.ndarray, np.ndarray]) -> None:
    prior = cagp.Prior(cagp.Matern32(0.15, 2.0), mean=0.0, noise_variance=0.05)
    options = {"likelihood": "nearest-neighbours", "n_neighbours": 10}
    found = []
    for seed in range(25):
        whole = log_likelihood(prior, *field, **options, seed=seed)
        found.append(log_likelihood(prior, *field, **options, seed=seed, terms=300) - whole)
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(len(found))
    assert np.std(found) < 0.2 * abs(whole)


def test_only_the_points_asked_about_are_searched() -> None:
    X = torch.from_numpy(np.random.default_rng(0).random((500, 2)))
    places = torch.tensor([0, 3, 17, 230, 231, 499])
    for kernel in (cagp.Matern32(0.3), cagp.Matern32(0.3) + cagp.RBF(2.0)):
        everything = previous_neighbours(kernel, X, 6)
        assert torch.equal(previous_neighbours(kernel, X, 6, places), everything[places])


def test_a_tree_takes_over_for_sums_of_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    from cagp.gram import previous_neighbours as module

    X = torch.from_numpy(np.random.default_rng(0).random((300, 2)))
    expected = previous_neighbours(cagp.Matern32(0.3, 2.0), X, 6)
    monkeypatch.setattr(module, "_ALL_PAIRS", 0)
    assert torch.equal(previous_neighbours(cagp.Matern32(0.3, 2.0) + cagp.RBF(0.5), X, 6), expected)


def test_rows_that_take_no_part_are_left_out() -> None:
    from likelihood_problems import observations

    data = observations(200)
    places = torch.tensor([1, 5, 150])
    near = previous_neighbours(cagp.RBF(0.3), data.X, 4, places)
    terms = Terms(places, near, torch.ones(3, dtype=torch.float64))
    own, used = terms.compact(data.size)
    assert used.tolist() == sorted(set(terms.members[terms.members != NONE].tolist()))
    assert torch.equal(own.members == NONE, terms.members == NONE)
    real = own.members != NONE
    assert torch.equal(used[own.members[real]], terms.members[real])


@pytest.mark.parametrize("compiled", [True, False])
def test_a_fit_to_some_terms_is_near_that_to_all(
    field: tuple[np.ndarray, np.ndarray], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr("cagp.hyperparameters.vecchia.compiled_plan", lambda space, X: None)
    options = {"likelihood": "nearest-neighbours", "n_neighbours": 8, "n_restarts": 0}
    whole = fit(PRIOR, *field, **options)
    assert whole.terms == whole.size == 1500
    assert whole.sampling_errors is None
    part = fit(PRIOR, *field, **options, terms=500)
    assert part.terms == 500
    assert part.size == 1500
    assert part.log_likelihood == pytest.approx(whole.log_likelihood, rel=0.1)
    assert part.prior.mean == cagp.Constant()
    for name, error in part.sampling_errors.items():
        assert 0 < error < part.standard_errors[name]
        assert abs(part.values[name] - whole.values[name]) < 4 * error
    assert "500 of the 1,500 terms" in part.story
    assert "estimated from 500 terms" in str(part)
    assert fit(PRIOR, *field, **options, terms=500, standard_errors=False).prior == part.prior  # seeded
