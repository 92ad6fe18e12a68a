"""How many test points go at once, and what conditioning again keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cagp
from cagp.predicting import batches as batching
from cagp.predicting.bounds import ComputationalVariance
from cagp.predicting.memory_plan import MemoryPlan
from cagp.stopping import ComputationalShare

RNG = np.random.default_rng(0)
X, X_TEST = RNG.random((400, 2)), RNG.random((200, 2))
Y = np.sin(6 * X[:, 0])
PRIOR = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)
BUDGET = 600_000


def batches(model: cagp.Model, **options: object) -> int:
    return len(model.predict(X_TEST, **options)._batches)


def test_a_rule_that_cannot_apply_costs_nothing() -> None:
    """NearestNeighbours works in one step: nothing of length d is needed, with a rule or without."""
    model = PRIOR.condition(X, Y, cagp.NearestNeighbours(20), storage="tiles", memory_budget=BUDGET)
    assert batches(model) == batches(model, stop=ComputationalShare(0.05)) == 1


def test_a_rule_never_undercuts_what_the_solver_needs() -> None:
    chain = cagp.Chain([cagp.GaussSeidel(2), cagp.CalibratedCG(20)])
    model = PRIOR.condition(X, Y, chain, storage="tiles", memory_budget=BUDGET)
    plan = MemoryPlan(model.components)
    with_rule = plan.batch(len(X_TEST), None, ComputationalShare(0.05))
    assert with_rule <= plan.batch(len(X_TEST), None)
    assert with_rule * model.prepared.numbers_per_test_point * 8 + model.prepared.held_bytes <= BUDGET


def test_a_rule_takes_its_room_where_it_needs_more_than_the_solver() -> None:
    model = PRIOR.condition(X, Y, cagp.GaussSeidel(20), storage="tiles", memory_budget=BUDGET)
    plan = MemoryPlan(model.components)
    assert plan.batch(len(X_TEST), None, ComputationalShare(0.05)) < plan.batch(len(X_TEST), None)


def test_a_rule_has_room_for_its_bounds_beside_the_solver() -> None:
    """15.2 rows of length d were measured for each test point, two thirds of them for the bounds (tests/hard)."""
    model = PRIOR.condition(X, Y, cagp.CalibratedCG(4), storage="tiles", memory_budget=BUDGET)
    size = MemoryPlan(model.components).batch(len(X_TEST), None, ComputationalShare(0.05))
    assert size * 15.2 * 400 * 8 <= BUDGET


def test_bounds_leave_room_for_the_weights_that_were_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = PRIOR.condition(X, Y, cagp.CalibratedCG(2), storage="tiles", memory_budget=10 * 200 * 400 * 8)
    prediction, sizes = model.predict(X_TEST), []

    def bounds_of(*arguments: Any) -> ComputationalVariance:
        sizes.append(arguments[1].size)
        assert prediction._batches[0].cross._matrix is None  # nobody needs it while parts have theirs
        return real(*arguments)

    real = batching.bounds_of
    monkeypatch.setattr(batching, "bounds_of", bounds_of)
    assert np.isfinite(prediction.computational_variance.upper).all()
    assert len(prediction._batches) == 1
    assert 12 * max(sizes) * 400 + 200 * 400 <= 10 * 200 * 400
    assert len(sizes) == 2


@pytest.mark.parametrize("kept", [None, np.arange(0, 400, 3)], ids=["all", "some"])
def test_again_is_the_same_model(kept: np.ndarray | None) -> None:
    noise = RNG.uniform(0.01, 0.1, 400)
    prior = cagp.Prior(cagp.Matern32(0.2), mean=cagp.Constant(0.3), noise_variance=noise)
    model = prior.condition(X, Y, cagp.GaussSeidel(3), solve_dtype="float32", storage="tiles")
    again = cagp.Model([model.components[0].rebuilt(kept, solver=cagp.Cholesky())])
    rows = slice(None) if kept is None else kept
    expected = cagp.Prior(prior.kernel, mean=model.prior.mean, noise_variance=noise[rows])
    reference = expected.condition(X[rows], Y[rows], cagp.Cholesky(), solve_dtype="float32", storage="tiles")
    assert again.recipe.arithmetic == "float32"
    assert again.recipe.storage == "tiles"
    for name in ("mean", "variance"):  # to rounding in float32: threads decide about the last digits
        found, wanted = (getattr(each.predict(X_TEST), name) for each in (again, reference))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_again_keeps_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp.predicting.conditioned.tf32_refused", lambda device, storage: False)  # as on a GPU
    model = PRIOR.condition(X, Y, cagp.GaussSeidel(1), solve_dtype="tf32", storage="tiles")
    assert model.components[0].rebuilt(solver=cagp.CalibratedCG(2)).recipe.arithmetic == "tf32"


def test_data_are_not_copied_on_every_access() -> None:
    model = PRIOR.condition(X, Y, cagp.Cholesky())
    assert model.X is model.X
    assert model.y is model.y
    other = model.with_observations(2 * Y)
    assert np.array_equal(other.y, 2 * Y)
    assert np.array_equal(model.y, Y)


def test_what_auto_picked_is_told_wherever_it_stands() -> None:
    start = PRIOR.condition(X, Y, cagp.CalibratedCG(2, start=cagp.Auto()))
    assert start.prepared.picked == cagp.CalibratedCG(2, start=cagp.Cholesky())
    assert "Auto picked CalibratedCG(iterations=2, start=Cholesky())" in str(start.predict(X_TEST).status)
    chain = PRIOR.condition(X, Y, cagp.Chain([cagp.Auto(), cagp.GaussSeidel(1)]))
    assert chain.prepared.picked == cagp.Chain([cagp.Cholesky(), cagp.GaussSeidel(1)])
    assert PRIOR.condition(X, Y, cagp.Chain([cagp.Cholesky(), cagp.GaussSeidel(1)])).prepared.picked is None


def test_numbers_of_batches_lie_in_one_place() -> None:
    """Between the large arrays of one batch they would keep malloc from using that memory for the next."""
    model = PRIOR.condition(X, Y, cagp.GaussSeidel(2), storage="tiles", memory_budget=BUDGET)
    found, whole = model.predict(X_TEST, batch_size=7), model.predict(X_TEST[:7])
    for name in ("mean", "variance", "iterations", "stopped", "at_rounding"):
        places = {getattr(batch, name).untyped_storage().data_ptr() for batch in found._batches}
        assert len(places) == 1
        np.testing.assert_array_equal(getattr(found._batches[0], name), getattr(whole._batches[0], name))
