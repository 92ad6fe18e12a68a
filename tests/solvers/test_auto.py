"""``solver="auto"`` counts operations and memory, the same on every machine, and says what it picked and why."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.gram import Gram
from cagp.solvers.candidates import Costed, Costs, Probe
from problems import make_problem

BUDGET = 8 * 2**30


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
    costs = Costs(gram_of(d, p))
    found = [*costs.others(T), *(Costed(cagp.NearestNeighbours(k), excess) for k, excess in neighbours.items())]
    choice = costs.pick(found, T, 0.01)
    assert choice.picked.solver == expected, str(choice)
    assert choice.because


class _Nothing(Probe):
    """Neighbours that never suffice, without looking."""

    def __init__(self) -> None:
        pass

    def excess(self, k: int, judged: int | None = None) -> float:
        return 1.0


def test_exact_where_it_costs_about_the_same() -> None:
    costs = Costs(gram_of(4_000, 3))
    both = [Costed(cagp.Cholesky(), 0.0), Costed(cagp.NearestNeighbours(400), 0.005)]
    for T, expected in ((100, 1), (10_000, 0)):
        choice = costs.pick(both, T, 0.01)
        assert choice.picked.solver == both[expected].solver
        assert ("exact" in choice.because) == (expected == 0)
    known = costs.pick(both, 100, 0.01, [cagp.Cholesky()])
    assert known.picked.solver == cagp.Cholesky()


def test_what_was_prepared_costs_nothing_more() -> None:
    costs = Costs(gram_of(10_000, 3))
    for solver in (cagp.Cholesky(), cg(500), cagp.NearestNeighbours(100)):
        again, first = (costs.candidate(solver, 10, prepared=prepared).operations for prepared in (True, False))
        assert 0 < again < first
        assert costs.candidate(solver, 1000).operations > first


def test_never_what_does_not_fit() -> None:
    d = 6_000
    costs = Costs(gram_of(d, 8, budget=1.5 * 8 * d * d))
    found = costs.candidates(100_000, 1e-6, _Nothing())
    assert cagp.Cholesky() not in [each.solver for each in found]
    tiny = Costs(gram_of(d, 8, budget=4e5))
    found = tiny.candidates(10, 1e-6, _Nothing())
    assert max(getattr(each.solver, "k", 0) for each in found) <= 50
    assert not any(isinstance(each.solver, cagp.CalibratedCG) for each in found)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cg(75)], ids=repr)
def test_memory_that_is_counted_is_what_the_solver_asks_for(solver: cagp.Solver) -> None:
    X = points(1_500, 2)
    needed = Costs(gram_of(len(X), 2)).candidate(solver, 1).n_bytes
    prior_in(2).condition(X, X[:, 0], solver, storage="dense", memory_budget=1.05 * needed)
    with pytest.raises(cagp.MemoryBudgetError):
        prior_in(2).condition(X, X[:, 0], solver, storage="dense", memory_budget=0.6 * needed)


# --- the excess -------------------------------------------------------------------------------------------------------


def test_excess_is_that_of_the_test_points() -> None:
    X, X_test = points(3_000, 3), points(600, 3, seed=1)
    model = prior_in(3).condition(X, X[:, 0], cagp.Cholesky())
    exact = model.predict(X_test).variance
    probe = Probe.of(model.gram, model.components[0].cross(torch.from_numpy(X_test)), 600)
    for k in (50, 100, 200):
        variance = prior_in(3).condition(X, X[:, 0], cagp.NearestNeighbours(k)).predict(X_test).variance
        true = (variance - exact).mean() / exact.mean()
        assert probe.excess(k) == pytest.approx(true, rel=0.6, abs=1e-3)


def test_excess_falls_with_the_neighbours_where_they_tell_little() -> None:
    X = points(50_000, 2)
    prior = cagp.Prior(cagp.Matern32(2.0), noise_variance=1.0)  # thousands of points matter
    model = prior.condition(X, X[:, 0], cagp.NearestNeighbours(1))
    probe = Probe.of(model.gram, model.components[0].cross(torch.from_numpy(points(4, 2, seed=1))), 4)
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
    assert "Auto picked Cholesky(): exact, and little work at this size" in str(model.predict(problem.X_test).status)
    assert "exact" in str(model.prepared.why)


def test_showing_a_model_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = points(2_500, 2)
    model = prior_in(2).condition(X, X[:, 0], "auto")

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a repr is no reason to compute")

    with monkeypatch.context() as patched:
        for module, name in ((torch.linalg, "cholesky_ex"), (torch, "matmul"), (Gram, "submatrix"), (Gram, "systems")):
            patched.setattr(module, name, refuse)
        patched.setattr("time.perf_counter", refuse)
        assert "solver=Auto())" in repr(model)
    model.predict(points(3, 2, seed=1))
    assert "solver=Auto() → NearestNeighbours(" in repr(model)


@pytest.mark.parametrize("settings", [{"test_points": 0}, {"excess": 0.0}, {"excess": "much"}])
def test_settings_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(cagp.CagpError, match=next(iter(settings))):
        cagp.Auto(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("mean", [None, cagp.means.Constant()])
def test_the_choice_is_made_with_the_test_points_and_shown(mean: cagp.Mean | None) -> None:
    X, X_test = points(4_000, 2), points(60, 2, seed=1)
    y = np.sin(5 * X[:, 0])
    prior = prior_in(2) if mean is None else cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01, mean=mean)
    model = prior.condition(X, y, cagp.Auto())
    post = model.predict(X_test)
    picked = model.prepared.picked
    assert isinstance(picked, cagp.NearestNeighbours)
    message = str(post.status)
    assert f"Auto picked {picked!r}: the least work within 1%; " in message
    assert "% excess expected, took " in message
    assert f"Auto() → {picked!r}" in repr(model)
    table = str(model.prepared.why)
    assert f"→  {picked!r}" in table
    assert "Cholesky()" in table
    assert "operations" in table
    same = prior.condition(X, y, picked).predict(X_test)
    for batches in ({}, {"batch_size": 7}, {"n_jobs": 2}):
        again = model.predict(X_test, **batches)
        np.testing.assert_allclose(again.mean, same.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(again.variance, same.variance, rtol=1e-9)
    exact = prior.condition(X, y, cagp.Cholesky()).predict(X_test)
    assert 0 <= (post.variance - exact.variance).mean() / exact.variance.mean() < 0.02


def test_the_choice_does_not_depend_on_y() -> None:
    X, X_test = points(3_000, 2), points(50, 2, seed=1)
    one, other = (prior_in(2).condition(X, y, cagp.Auto()) for y in (X[:, 0], 1e3 * np.sin(50 * X[:, 1])))
    np.testing.assert_array_equal(one.predict(X_test).variance, other.predict(X_test).variance)
    assert one.prepared.picked == other.prepared.picked


def test_many_more_test_points_may_change_it_and_a_posterior_keeps_its_own() -> None:
    X = points(2_500, 4)
    few, many = points(3, 4, seed=1), points(8_000, 4, seed=2)
    prior = cagp.Prior(cagp.Matern32(0.5), noise_variance=0.01, mean=cagp.means.Constant())
    model = prior.condition(X, X[:, 0], cagp.Auto(excess=1e-6))
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
    X = points(2_500, 4)
    model = prior_in(4).condition(X, X[:, 0], cagp.Auto(test_points=100_000, excess=1e-6))
    model.predict(points(2, 4, seed=1))
    assert model.prepared.picked == cagp.Cholesky()
    model.predict(points(1, 4, seed=2))
    assert model.prepared.picked == cagp.Cholesky()
    assert cagp.Auto().for_test_points(7) == cagp.Auto(test_points=7) == cagp.Auto(test_points=7).for_test_points(9)


def test_asked_before_any_prediction() -> None:
    X = points(3_000, 2)
    model = prior_in(2).condition(X, X[:, 0], cagp.Auto())
    assert isinstance(model.prepared.picked, cagp.NearestNeighbours)
    assert model.prepared.limit == 1
    assert model.prepared.unbiased
    chain = prior_in(2).condition(X, X[:, 0], cagp.CalibratedCG(2, start=cagp.Auto()))
    assert isinstance(chain.prepared.picked.start, cagp.NearestNeighbours)


def test_it_is_calibrated() -> None:
    X, X_test = points(2_100, 2), points(40, 2, seed=1)
    rng, prior = np.random.default_rng(5), prior_in(2)
    both = np.concatenate([X, X_test])
    K = prior.condition(both[:1], both[:1, 0], cagp.Cholesky()).prior.kernel(both, both)
    L = np.linalg.cholesky(np.asarray(K) + 1e-8 * np.eye(len(both)))
    model = prior.condition(X, X[:, 0], cagp.Auto())
    z = []
    for _ in range(20):
        f = L @ rng.normal(size=len(both))
        y = f[: len(X)] + 0.1 * rng.normal(size=len(X))
        post = model.with_observations(y).predict(X_test)
        z.append((f[len(X) :] - post.mean) / post.std)
    assert isinstance(model.prepared.picked, cagp.NearestNeighbours)
    assert np.square(z).mean() == pytest.approx(1, abs=0.15)
