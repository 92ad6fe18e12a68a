"""Where to measure next: promises against models with the new observations, choices against plain algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp
from problems import make_problem
from solver_cases import CASES, OUTSIDE, Case

PROBLEM = make_problem(d=40, T=12)
CANDIDATES = np.random.default_rng(5).random((9, PROBLEM.X.shape[1]))
EXACT = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
LINEAR = cagp.Prior(PROBLEM.prior.kernel, mean=cagp.Polynomial(1), noise_variance=0.05)


def _afterwards(model: cagp.Model, chosen: np.ndarray, **noise: Any) -> cagp.Model:
    """The model with some observations at the candidates that were chosen."""
    return model.with_more(CANDIDATES[chosen], np.random.default_rng(1).random(len(chosen)), **noise)


def _variance(X: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The exact variance in the region from observations at X (d, 2), by plain algebra."""
    V = PROBLEM.kernel(PROBLEM.X_test, X)
    G = PROBLEM.kernel(X, X) + np.diag(noise)
    return np.asarray(PROBLEM.variance - np.einsum("td,dt->t", V, np.linalg.solve(G, V.T)))


# --- promises ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [PROBLEM.prior, LINEAR], ids=["known mean", "linear trend"])
@pytest.mark.parametrize(
    "solver", [cagp.Cholesky(), cagp.NearestNeighbours(60), cagp.CalibratedCG(120), cagp.Auto()], ids=repr
)
def test_promises_of_exact_solvers_are_kept(prior: cagp.Prior, solver: cagp.Solver) -> None:
    model = prior.condition(PROBLEM.X, PROBLEM.y, solver)
    weights = np.random.default_rng(2).random(12)
    found = model.where_next(CANDIDATES, 4, region=PROBLEM.X_test, weights=weights)
    for n in range(5):
        more = _afterwards(model, found.chosen[:n]) if n else model
        variance = more.predict(PROBLEM.X_test).variance
        assert_allclose(found.average_variance[n], np.average(variance, weights=weights), rtol=1e-7)
    assert_allclose(found.variance, variance, rtol=1e-6)
    assert len(set(found.chosen.tolist())) == 4


@pytest.mark.parametrize("case", [*CASES, *OUTSIDE], ids=lambda case: case.id)
def test_promises_of_every_solver_are_those_of_its_weights_corrected(case: Case) -> None:
    """C(W) of dense algebra for the weights at hand, corrected by one new observation after another."""
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, case.solver)
    found = model.where_next(CANDIDATES, 3, region=PROBLEM.X_test)
    places, new = np.vstack([PROBLEM.X_test, CANDIDATES]), 12 + found.chosen
    data = np.vstack([PROBLEM.X, places[new]])
    G, V = PROBLEM.kernel(data, data) + 0.05 * np.eye(43), PROBLEM.kernel(places, data)
    W = np.vstack([model.predict(places).weights, np.zeros((3, len(places)))])

    def covariance() -> np.ndarray:
        return PROBLEM.kernel(places, places) - V @ W - W.T @ V.T + W.T @ G @ W

    for i, c in enumerate(new):
        surprise = -W[:, c]  # what the new observation has beyond its prediction
        surprise[40 + i] += 1.0
        C = covariance()
        W = W + np.outer(surprise, C[c] / (C[c, c] + 0.05))
    promised = np.diag(covariance())[:12]
    assert_allclose(found.variance, promised, rtol=1e-6)
    assert (found.variance >= _afterwards(EXACT, found.chosen).predict(PROBLEM.X_test).variance * (1 - 1e-9)).all()
    before = model.predict(places).variance[:12]
    assert_allclose(found.average_variance[[0, -1]], [before.mean(), promised.mean()], rtol=1e-6)


@pytest.mark.parametrize("solver", [cagp.NearestNeighbours(0), cagp.Subset(size=0), cagp.GaussSeidel(0)], ids=repr)
def test_nothing_computed_is_the_prior_corrected(solver: cagp.Solver) -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver)
    found = model.where_next(CANDIDATES, 2, region=PROBLEM.X_test)
    assert_allclose(found.variance, _variance(CANDIDATES[found.chosen], np.full(2, 0.05)), rtol=1e-9)


def test_those_of_a_mixture_are_its_components_by_their_weights() -> None:
    second = cagp.Prior(cagp.Matern12(0.5), noise_variance=0.2).condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
    model = cagp.Model([EXACT.components[0], second.components[0]], [0.7, 0.3])
    found = model.where_next(CANDIDATES, 3, region=PROBLEM.X_test)

    def within(chosen: np.ndarray) -> np.ndarray:
        parts = _afterwards(model, chosen).predict(PROBLEM.X_test).components
        return np.asarray(sum(w * part.variance for w, part in zip((0.7, 0.3), parts, strict=True)))

    assert_allclose(found.variance, within(found.chosen), rtol=1e-7)
    assert found.chosen[0] == np.argmin([within(np.array([i])).mean() for i in range(9)])


def test_margins_and_transforms_change_nothing() -> None:
    plain = EXACT.where_next(CANDIDATES, 3, region=PROBLEM.X_test)
    logarithm = PROBLEM.prior.transformed("log").condition(PROBLEM.X, np.exp(PROBLEM.y), cagp.Cholesky())
    for model in (EXACT.recalibrated(), logarithm):
        found = model.where_next(CANDIDATES, 3, region=PROBLEM.X_test)
        assert_allclose(found.variance, plain.variance, rtol=1e-9)
        assert found.guarantee.kind == "under the prior"
    driven = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.ConjugateGradient(5))
    assert driven.where_next(CANDIDATES, 1).guarantee.kind == "none"


@pytest.mark.parametrize(
    "options", [{}, {"transform": "log", "mean": "linear"}, {"recalibrate": True, "uncertainty": False}], ids=str
)
def test_promises_of_what_is_fitted_by_default_are_kept(options: dict[str, Any]) -> None:
    """With several candidates, hyperparameters that are integrated over, a trend, a transform, learned margins."""
    rng = np.random.default_rng(6)
    X = rng.random((60, 2))
    y = np.exp(np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60))
    model = cagp.fit(X, y, kernel=["matern32", "matern52"], progress=False, **options)
    assert (len(model.components) > 1) == options.get("uncertainty", True)
    found = model.where_next(CANDIDATES, 3, region=PROBLEM.X_test)
    more = model.with_more(CANDIDATES[found.chosen], rng.uniform(1, 5, 3)).replace(transform=None, margins=None)
    parts = more.predict(PROBLEM.X_test, progress=False).components
    variance = sum(w * np.asarray(part.variance) for w, part in zip(more.weights, parts, strict=True))
    assert_allclose(found.variance, variance, rtol=1e-7)
    assert_allclose(found.average_variance[-1], np.mean(variance), rtol=1e-7)


# --- choices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("costly", [False, True])
def test_each_choice_is_the_best_of_all(costly: bool) -> None:
    """Against solving anew for every candidate, with noise and costs of their own."""
    rng = np.random.default_rng(3)
    noise, weights = rng.uniform(0.01, 0.5, 9), rng.random(12)
    costs = rng.uniform(1, 4, 9) if costly else None
    options: dict[str, Any] = {"weights": weights, "costs": costs, "noise_variance": noise}
    found = EXACT.where_next(CANDIDATES, 5, region=PROBLEM.X_test, **options)
    X, sigma, taken = PROBLEM.X, np.full(40, 0.05), []
    for _ in range(5):
        before = np.average(_variance(X, sigma), weights=weights)
        after = [
            np.average(_variance(np.vstack([X, c]), np.append(sigma, s)), weights=weights)
            for c, s in zip(CANDIDATES, noise, strict=True)
        ]
        gain = (before - np.array(after)) / (1.0 if costs is None else costs)
        gain[taken] = -1.0
        taken.append(int(gain.argmax()))
        X, sigma = np.vstack([X, CANDIDATES[taken[-1]]]), np.append(sigma, noise[taken[-1]])
    assert found.chosen.tolist() == taken
    more = _afterwards(EXACT, found.chosen, noise_variance=noise[found.chosen])
    assert_allclose(found.variance, more.predict(PROBLEM.X_test).variance, rtol=1e-7)


def test_equal_candidates_are_taken_in_their_order_and_repeated_places_as_often_as_they_stand() -> None:
    line = np.array([[0.0], [1.0]])
    model = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01).condition(line, [0.0, 1.0], cagp.Cholesky())
    symmetric = np.array([[0.75], [0.25], [0.75], [0.25]])
    found = model.where_next(symmetric, 4, region=np.linspace(0, 1, 21)[:, None])
    assert found.chosen.tolist() == [0, 1, 2, 3]
    assert (np.diff(found.average_variance) < 0).all()
    again = model.with_more(symmetric, np.zeros(4)).predict(np.linspace(0, 1, 21)[:, None])
    assert_allclose(found.variance, again.variance, rtol=1e-7)
    almost_exact = model.where_next(symmetric, 4, noise_variance=1e-14)
    assert (almost_exact.variance >= 0).all()


def test_without_a_region_the_candidates_are_it() -> None:
    found = EXACT.where_next(CANDIDATES, 2)
    other = EXACT.where_next(CANDIDATES, 2, region=CANDIDATES)
    assert found.chosen.tolist() == other.chosen.tolist()
    assert_allclose(found.variance, other.variance, rtol=1e-9)


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("trend", [cagp.Zero(), cagp.Polynomial(1)], ids=repr)
def test_very_many_look_at_what_is_near_and_promise_the_same(
    monkeypatch: pytest.MonkeyPatch, trend: cagp.Mean, gap: bool
) -> None:
    problem, rng = make_problem(d=2500, T=60, seed=3), np.random.default_rng(0)
    kept = np.linalg.norm(problem.X - 0.5, axis=1) > 0.2 * gap  # errors in a gap reach across it
    prior = cagp.Prior(cagp.Matern32(0.1), mean=trend, noise_variance=0.05)
    model = prior.condition(problem.X[kept], problem.y[kept], cagp.NearestNeighbours(20))
    candidates = rng.random((400, 2))
    whole = model.where_next(candidates, 15, region=problem.X_test)
    monkeypatch.setattr("cagp.design._VALUES", 1e6)
    some = model.where_next(candidates, 15, region=problem.X_test)
    assert "candidates nearest to them, 100 at least" in str(some.status)
    assert "nearest to them" not in str(whole.status)
    gained = [each.average_variance[0] - each.average_variance[-1] for each in (some, whole)]
    assert gained[0] > 0.99 * gained[1]
    C = model.predict(np.vstack([problem.X_test, candidates])).covariance()
    for c in 60 + some.chosen:
        C = C - np.outer(C[:, c], C[c]) / (C[c, c] + 0.05)
    assert_allclose(some.variance, np.diag(C)[:60], rtol=1e-6)


def test_bad_requests_are_refused() -> None:
    each = cagp.Prior(PROBLEM.prior.kernel, noise_variance=np.full(40, 0.05)).condition(PROBLEM.X, PROBLEM.y)
    for model, options, said in (
        (EXACT, {"n": 10}, "n=10 of 9 candidates"),
        (EXACT, {"n": 0}, "n must be at least 1"),
        (EXACT, {"n": 1, "costs": np.zeros(9)}, "costs must be positive, got 0 at index 0"),
        (EXACT, {"n": 1, "costs": np.ones(3)}, r"costs has shape \(3,\) for 9 candidates"),
        (EXACT, {"n": 1, "weights": -np.ones(9)}, "weights must not be negative"),
        (EXACT, {"n": 1, "weights": np.zeros(9)}, "nor all of them zero"),
        (EXACT, {"n": 1, "region": np.zeros((3, 5))}, "region"),
        (each, {"n": 1}, "noise_variance"),
    ):
        with pytest.raises(cagp.InputError, match=said):
            model.where_next(CANDIDATES, **options)
    assert "2 chosen, average variance" in repr(EXACT.where_next(CANDIDATES, 2))


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(10)], ids=repr)
@pytest.mark.parametrize("noise", [0.0, 1e-300, 1e-14])
def test_places_measured_again_without_noise_teach_nothing(solver: cagp.Solver, noise: float) -> None:
    places, smooth = np.repeat(CANDIDATES[:4], 3, axis=0), cagp.Prior(cagp.RBF(0.5), noise_variance=1e-14)
    found = smooth.condition(PROBLEM.X[:30], PROBLEM.y[:30], solver).where_next(places, 12, noise_variance=noise)
    assert sorted(found.chosen) == list(range(12))
    assert len({each // 3 for each in found.chosen[:4]}) == 4
    assert (found.average_variance >= 0).all()
    assert (np.diff(found.average_variance) <= 0).all()
    assert found.average_variance[-1] <= 1e-12


def test_weights_of_any_size_count_alike() -> None:
    found, alike = (EXACT.where_next(CANDIDATES, 2, weights=np.full(9, size)) for size in (1e308, 1.0))
    assert_allclose(found.average_variance, alike.average_variance)
