"""``solver="auto"`` counts the cost on a known machine, and says what it picked and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import cagp
from cagp.algebra.operations import Pace
from cagp.gram import Gram
from cagp.solvers.candidates import Candidate, Costs, Probe, candidates, pick
from cagp.solvers.rates import Rates
from problems import make_problem

RATES = Rates(Pace(5e-9, 3e-10, 1.25e-11), 4e-10, 1e-9, ((25, 1.5e-5), (100, 1.5e-4), (400, 2e-3)))
SLOW_FLOPS = Rates(Pace(5e-9, 3e-10, 1e-9), 4e-10, 1e-9, RATES.neighbourhoods)
BUDGET = 8 * 2**30


class Known(cagp.Auto):
    """Auto on a machine whose rates are known."""

    def rates(self, gram: Gram) -> Rates:
        return RATES


class Slower(cagp.Auto):
    """The same where linear algebra is a quarter as fast."""

    def rates(self, gram: Gram) -> Rates:
        return replace(RATES, pace=replace(RATES.pace, flop=4 * RATES.pace.flop))


def prior_in(p: int) -> cagp.Prior:
    return cagp.Prior(cagp.Matern32(0.2 * p**0.5), noise_variance=0.01)


def points(d: int, p: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((d, p))


def gram_of(d: int, p: int, budget: float = BUDGET) -> Gram:
    """Nothing is computed."""
    X = points(d, p)
    return prior_in(p).condition(X, X[:, 0], cagp.GaussSeidel(0, order="natural"), memory_budget=budget).gram


def cg(rank: int) -> cagp.Solver:
    return cagp.CalibratedCG(10, cagp.Nystrom(rank), start=cagp.NearestNeighbours(200))


# --- the choice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "p", "T", "neighbours", "expected"),
    [
        (4_000, 2, 1, {50: 0.005}, cagp.NearestNeighbours(50)),
        (13_500, 26, 1_500, {50: 0.3, 100: 0.1, 200: 0.05, 400: 0.023}, cagp.Cholesky()),
        (13_500, 26, 20, {50: 0.3, 800: 0.05}, cg(675)),
        (20_000, 2, 1_000, {50: 0.2, 100: 0.02, 200: 0.004}, cagp.NearestNeighbours(200)),
        (40_000, 8, 200, {800: 0.05}, cg(2_000)),
        (100_000, 2, 100_000, {50: 0.2, 100: 0.005}, cagp.NearestNeighbours(100)),
        (1_000_000, 8, 10_000, {50: 0.3, 400: 0.08, 800: 0.05}, cagp.NearestNeighbours(800)),
        (1_000_000, 8, 200_000, {50: 0.3, 400: 0.08, 800: 0.05}, cagp.NearestNeighbours(50)),
    ],
)
def test_what_is_picked(d: int, p: int, T: int, neighbours: dict[int, float], expected: cagp.Solver) -> None:
    gram = gram_of(d, p)
    costs = Costs(gram, RATES)
    others = [each for each in candidates(gram, costs, _Nothing(gram), T, 0.01) if each.solver.points_used(d) is None]
    found = [*others, *(Candidate(cagp.NearestNeighbours(k), excess) for k, excess in neighbours.items())]
    choice, why = pick(found, costs, T, 0.01, ())
    assert choice.solver == expected, [(each, costs.seconds(each.solver, T)) for each in found]
    assert why


class _Nothing(Probe):
    """Neighbours that never suffice, without looking."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def excess(self, k: int, judged: int | None = None) -> float:
        return 1.0


def test_exact_where_it_costs_about_the_same() -> None:
    gram = gram_of(4_000, 3)
    both = [Candidate(cagp.Cholesky(), 0.0), Candidate(cagp.NearestNeighbours(400), 0.005)]
    for T, expected in ((100, 1), (10_000, 0)):
        choice, why = pick(both, Costs(gram, RATES), T, 0.01, ())
        assert choice is both[expected]
        assert ("exact" in why) == (expected == 0)
    assert pick(both, Costs(gram, SLOW_FLOPS), 1_000, 0.01, ())[0] is both[1]
    assert pick(both, Costs(gram, SLOW_FLOPS), 100, 0.01, [cagp.Cholesky()])[0] is not both[0]


def test_what_was_prepared_costs_nothing_more() -> None:
    costs = Costs(gram_of(10_000, 3), RATES)
    for solver in (cagp.Cholesky(), cg(500), cagp.NearestNeighbours(100)):
        again, first = (costs.seconds(solver, 10, prepared) for prepared in (True, False))
        assert 0 < again < first
        assert costs.seconds(solver, 1000) > first


def test_never_what_does_not_fit() -> None:
    d = 6_000
    gram = gram_of(d, 8, budget=1.5 * 8 * d * d)
    found = candidates(gram, Costs(gram, RATES), _Nothing(gram), 100_000, 1e-6)
    assert cagp.Cholesky() not in [each.solver for each in found]
    tiny = gram_of(d, 8, budget=4e5)
    found = candidates(tiny, Costs(tiny, RATES), _Nothing(tiny), 10, 1e-6)
    assert max(getattr(each.solver, "k", 0) for each in found) <= 50
    assert not any(isinstance(each.solver, cagp.CalibratedCG) for each in found)


def test_rates_between_and_beyond_what_was_measured() -> None:
    times = [RATES.neighbourhood(k, 2) for k in (10, 25, 50, 100, 200, 400, 800)]
    assert times[0] == pytest.approx(1.5e-5)  # nothing is known of fewer
    assert times[1:] == sorted(times[1:])
    assert times[5] == pytest.approx(2e-3)
    assert times[6] == pytest.approx(2**2.8 * 2e-3)
    assert RATES.neighbourhood(100, 12) == pytest.approx(1.5e-4 + 10 * 4e-10 * 100**2)


def test_this_machine_is_measured_once() -> None:
    found = Rates.measured(torch.device("cpu"), torch.float64)
    assert found is Rates.measured(torch.device("cpu"), torch.float64)
    steps = np.log([found.pace.flop, found.pace.read, found.pace.kernel_value, found.search]) / np.log(1.25)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)


# --- the excess -------------------------------------------------------------------------------------------------------


def test_excess_is_that_of_the_test_points() -> None:
    X, X_test = points(3_000, 3), points(600, 3, seed=1)
    model = prior_in(3).condition(X, X[:, 0], cagp.Cholesky())
    exact = model.predict(X_test).variance
    probe = Probe.of(model.gram, model.cross(torch.from_numpy(X_test)), 600)
    for k in (50, 100, 200):
        variance = prior_in(3).condition(X, X[:, 0], cagp.NearestNeighbours(k)).predict(X_test).variance
        true = (variance - exact).mean() / exact.mean()
        assert probe.excess(k) == pytest.approx(true, rel=0.6, abs=1e-3)


def test_excess_falls_with_the_neighbours_where_they_tell_little() -> None:
    X = points(50_000, 2)
    prior = cagp.Prior(cagp.Matern32(2.0), noise_variance=1.0)  # thousands of points matter
    model = prior.condition(X, X[:, 0], cagp.NearestNeighbours(1))
    probe = Probe.of(model.gram, model.cross(torch.from_numpy(points(4, 2, seed=1))), 4)
    found = [probe.excess(k, 400) for k in (50, 100, 200, 400)]
    assert np.isfinite(found).all()
    assert found == sorted(found, reverse=True)
    assert found[-1] > 0.1


def test_training_points_stand_in_left_out() -> None:
    gram = gram_of(3_000, 2)
    probe = Probe.of(gram, None, 1_000)
    assert probe.gram.size == gram.size - probe.cross.size
    variance = (
        probe.cross.prior_variance()
        - cagp.NearestNeighbours(100).prepare(probe.gram).where_possible(probe.cross).reduction
    )
    seen = cagp.NearestNeighbours(100).prepare(gram).where_possible(probe.cross.seen_by(gram))
    assert (variance > probe.cross.prior_variance() - seen.reduction).all()


# --- a model ----------------------------------------------------------------------------------------------------------


def test_small_problems_are_exact_at_once() -> None:
    problem = make_problem()
    model = problem.prior.condition(problem.X, problem.y, "auto")
    assert "solver=Auto() → Cholesky()" in repr(model)
    assert "Auto picked Cholesky()." in str(model.predict(problem.X_test).status)


@pytest.mark.parametrize("settings", [{"test_points": 0}, {"excess": 0.0}, {"excess": "much"}])
def test_settings_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(cagp.CagpError, match=next(iter(settings))):
        cagp.Auto(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("mean", [None, cagp.means.Constant()])
def test_the_choice_is_made_with_the_test_points_and_shown(mean: cagp.Mean | None) -> None:
    X, X_test = points(6_000, 2), points(60, 2, seed=1)
    y = np.sin(5 * X[:, 0])
    prior = prior_in(2) if mean is None else cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01, mean=mean)
    model = prior.condition(X, y, Known())
    post = model.predict(X_test)
    picked = model.prepared.picked
    assert isinstance(picked, cagp.NearestNeighbours)
    message = str(post.status)
    assert f"Auto picked {picked!r}: the fastest within 1%; expected " in message
    assert "% excess, took " in message
    assert f"Known() → {picked!r}" in repr(model)
    same = prior.condition(X, y, picked).predict(X_test)
    for batches in ({}, {"batch_size": 7}, {"n_jobs": 2}):
        again = model.predict(X_test, **batches)
        np.testing.assert_allclose(again.mean, same.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(again.variance, same.variance, rtol=1e-9)
    exact = prior.condition(X, y, cagp.Cholesky()).predict(X_test)
    assert 0 <= (post.variance - exact.variance).mean() / exact.variance.mean() < 0.02


def test_the_choice_does_not_depend_on_y() -> None:
    X, X_test = points(3_000, 2), points(50, 2, seed=1)
    one, other = (prior_in(2).condition(X, y, Known()) for y in (X[:, 0], 1e3 * np.sin(50 * X[:, 1])))
    np.testing.assert_array_equal(one.predict(X_test).variance, other.predict(X_test).variance)
    assert one.prepared.picked == other.prepared.picked


def test_many_more_test_points_may_change_it_and_a_posterior_keeps_its_own() -> None:
    X = points(2_500, 4)
    few, many = points(3, 4, seed=1), points(8_000, 4, seed=2)
    prior = cagp.Prior(cagp.Matern32(0.5), noise_variance=0.01, mean=cagp.means.Constant())
    model = prior.condition(X, X[:, 0], Slower(excess=1e-6))
    first = model.predict(few)
    before = model.prepared.picked
    assert isinstance(before, cagp.CalibratedCG)
    model.predict_mean(many)
    assert model.prepared.picked == cagp.Cholesky()
    alone = prior.condition(X, X[:, 0], before).predict(few)
    np.testing.assert_allclose(first.covariance(), alone.covariance(), rtol=1e-6, atol=1e-12)
    exact = prior.condition(X, X[:, 0], cagp.Cholesky()).predict(few)
    np.testing.assert_allclose(model.predict_mean(many[:5]), model.predict(many[:5]).mean, rtol=1e-9)
    assert (exact.variance <= first.variance * (1 + 1e-9)).all()


def test_expected_test_points_settle_it_for_good() -> None:
    X = points(3_000, 3)
    model = prior_in(3).condition(X, X[:, 0], Known(test_points=100_000))
    model.predict(points(2, 3, seed=1))
    assert model.prepared.picked == cagp.Cholesky()
    model.predict(points(1, 3, seed=2))
    assert model.prepared.picked == cagp.Cholesky()
    assert cagp.Auto().for_test_points(7) == cagp.Auto(test_points=7) == cagp.Auto(test_points=7).for_test_points(9)


def test_asked_before_any_prediction() -> None:
    X = points(3_000, 2)
    model = prior_in(2).condition(X, X[:, 0], Known())
    assert isinstance(model.prepared.picked, cagp.NearestNeighbours)
    assert model.prepared.limit == 1
    assert model.prepared.unbiased
    chain = prior_in(2).condition(X, X[:, 0], cagp.CalibratedCG(2, start=Known()))
    assert isinstance(chain.prepared.picked.start, cagp.NearestNeighbours)


def test_it_is_calibrated() -> None:
    X, X_test = points(2_100, 2), points(40, 2, seed=1)
    rng, prior = np.random.default_rng(5), prior_in(2)
    both = np.concatenate([X, X_test])
    K = prior.condition(both[:1], both[:1, 0], cagp.Cholesky()).prior.kernel(both, both)
    L = np.linalg.cholesky(np.asarray(K) + 1e-8 * np.eye(len(both)))
    model = prior.condition(X, X[:, 0], Slower())
    z = []
    for _ in range(20):
        f = L @ rng.normal(size=len(both))
        y = f[: len(X)] + 0.1 * rng.normal(size=len(X))
        post = model.with_observations(y).predict(X_test)
        z.append((f[len(X) :] - post.mean) / post.std)
    assert isinstance(model.prepared.picked, cagp.NearestNeighbours)
    assert np.square(z).mean() == pytest.approx(1, abs=0.15)
