"""Stand-ins: predicted as they say, like the points that they stand in for, and right under the prior."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import cagp
from cagp.left_out import Geometry, StandIns, leave_out, matching
from cagp.recalibration.diagnosis import diagnose
from random_examples import examples

NOISE = 0.05


def geometry(name: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Places with observations and places to be predicted: something is missing around these."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    if name == "gap":
        inside = np.linalg.norm(X - 0.5, axis=1) < 0.2
    elif name == "corner":
        inside = (X > 0.7).all(axis=1)
    elif name == "coast":
        inside = X[:, 0] + 0.05 * np.sin(20 * X[:, 1]) > 0.85
    elif name == "forecast":
        X = np.column_stack([rng.integers(0, 12, n) / 12, np.sort(rng.random(n))])
        inside = X[:, 1] > 0.9
    else:  # places that were never observed, on a grid of places and times
        X = np.stack(np.meshgrid(rng.random(n // 8), np.arange(8) / 8), axis=-1).reshape(-1, 2)
        inside = X[:, 0] < np.quantile(X[:, 0], 0.2)
    return X[~inside], X[inside]


@pytest.mark.parametrize("name", ["gap", "corner", "coast", "forecast", "line"])
def test_they_promise_what_the_points_do(name: str) -> None:
    X, like = geometry(name, 1500)
    prior = cagp.Prior(cagp.Matern32((0.3, 0.3)), noise_variance=NOISE)
    model = prior.condition(X, X[:, 0], cagp.NearestNeighbours(40, shared=False))
    found = model.left_out(like=like)
    assert found.stand_ins is not None
    assert found.stand_ins.missing < 0.05
    tenths = (0.1, 0.5, 0.9)
    there = model.predict(like).observed().std
    np.testing.assert_allclose(np.quantile(found.std, tenths), np.quantile(there, tenths), rtol=0.05)
    alone = np.quantile(model.left_out().std, tenths)
    assert np.median(found.std) > 1.1 * alone[1]  # which leaving out alone does not give
    assert len(np.unique(found.index)) > 100


@given(
    st.sampled_from(["gap", "corner", "coast", "forecast", "line"]),
    st.sampled_from([cagp.Cholesky(), cagp.NearestNeighbours(15), cagp.CalibratedCG(5)]),
    st.booleans(),
    st.integers(0, 10**6),
)
@examples(10)
def test_z_is_standard_normal_under_the_prior(name: str, solver: cagp.Solver, trend: bool, seed: int) -> None:
    X, like = geometry(name, 48, seed)
    mean = cagp.Constant() if trend else cagp.Zero()
    prior = cagp.Prior(cagp.Matern32(0.4), mean=mean, noise_variance=0.3)
    G = prior.kernel(torch.from_numpy(X), torch.from_numpy(X)).numpy() + 0.3 * np.eye(len(X))
    model, total = prior.condition(X, np.zeros(len(X)), solver), 0.0
    chosen, again = (
        matching(each.components[0]).stand_ins(torch.from_numpy(like), 100, 0)
        for each in (model, model.with_observations(X[:, 0]))
    )
    assume(len(chosen))
    assert torch.equal(chosen.members, again.members)  # nobody is chosen by what was observed
    for column in np.linalg.cholesky(G).T:  # Var z = Σ (z of the columns of L)²
        total = total + leave_out(model.with_observations(column), chosen).z ** 2
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)


@pytest.mark.parametrize("mean", [cagp.Zero(), cagp.Polynomial(1)], ids=repr)
@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(40)], ids=repr)
def test_each_is_predicted_from_its_members_alone(mean: cagp.Mean, solver: cagp.Solver) -> None:
    X, like = geometry("gap", 300)
    y = np.sin(5 * X[:, 0]) + 3 * X[:, 1]
    prior = cagp.Prior(cagp.Matern32((0.3, 0.5), 2.0), mean=mean, noise_variance=0.1)
    found = prior.condition(X, y, solver).left_out(like=like, n=100)
    assert found.stand_ins is not None
    for place in range(0, len(found), 20):
        members, i = found.stand_ins.members[place].numpy(), found.index[place]
        kept = members[members >= 0]
        assert i not in kept
        assert len(np.unique(kept)) == len(kept)
        post = prior.condition(X[kept], y[kept], cagp.Cholesky()).predict(X[i : i + 1]).observed()
        np.testing.assert_allclose((found.mean[place], found.std[place]), (post.mean[0], post.std[0]), rtol=1e-6)
        scaled = X / (0.3, 0.5)
        assert found.distance[place] == pytest.approx(np.linalg.norm(scaled[kept] - scaled[i], axis=1).min())


def test_where_nobody_can_stand_in_that_is_said() -> None:
    X, _ = geometry("gap", 200)
    y = np.sin(6 * X[:, 0]) + np.random.default_rng(0).normal(0, 0.1, len(X))
    prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)
    model = prior.condition(X, y, cagp.Cholesky())
    for ask in (model.left_out, model.recalibrated):
        with pytest.raises(cagp.InputError, match="no observation can stand in for any of the points of like"):
            ask(like=X + 1000.0)
    fitted = cagp.fit(X, y, like=X + 1000.0, kernel="matern32", mean="constant", progress=False)
    assert "For 100% of the points to be predicted nothing can be judged" in str(fitted.story)


def test_what_is_nearer_than_a_distance_is_left_out() -> None:
    X, _ = geometry("gap", 1500)
    model = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01).condition(X, X[:, 0], cagp.NearestNeighbours(40))
    rows, width = torch.arange(0, len(X), 10), 0.6
    found = matching(model.components[0]).beyond(rows, torch.full((len(rows),), width, dtype=torch.float64))
    points = torch.from_numpy(X / 0.2)
    apart = (points[found.members] - points[found.rows][:, None]).norm(dim=2).masked_fill(found.members < 0, torch.inf)
    assert len(found) > 0.7 * len(rows)
    assert bool((apart.amin(dim=1) >= 0.8 * width).all())
    assert float(apart.amin(dim=1).median()) < 1.3 * width


def test_neighbourhoods_on_a_globe_are_turned() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.degrees(np.arcsin(rng.uniform(-1, 1, 3000))), rng.uniform(-180, 180, 3000)])
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.3)), noise_variance=0.01)
    space = Geometry(prior.condition(X, X[:, 0], cagp.NearestNeighbours(10)).components[0])
    start, end = space.points[:50], space.points[50:100]
    offsets = space.points[100:150, None] - start[:, None]
    moved = end[:, None] + space.moved(offsets, start, end)
    on_it = space.points.norm(dim=1).mean()
    np.testing.assert_allclose(moved.norm(dim=2), on_it.expand(50, 1))  # a counterpart's place is on the globe, too
    np.testing.assert_allclose((moved - end[:, None]).norm(dim=2), offsets.norm(dim=2))


def test_a_globe_in_single_precision_is_one() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.degrees(np.arcsin(rng.uniform(-1, 1, 500))), rng.uniform(-180, 180, 500)])
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.3)), noise_variance=0.01)
    space = Geometry(prior.condition(X, X[:, 0], cagp.NearestNeighbours(10), dtype="float32").components[0])
    offsets = space.points[2:3, None] - space.points[:1, None]
    assert not torch.allclose(space.moved(offsets, space.points[:1], space.points[1:2]), offsets)


def test_where_all_is_near_nobody_is_left() -> None:
    X, _ = geometry("gap", 200)
    model = cagp.Prior(cagp.Matern32(0.3), noise_variance=NOISE).condition(X, X[:, 0], cagp.NearestNeighbours(20))
    far = torch.full((len(X),), 1e6, dtype=torch.float64)
    assert not len(matching(model.components[0]).beyond(torch.arange(len(X)), far))


def test_an_observation_that_stands_in_for_many_points_counts_once() -> None:
    X = np.random.default_rng(0).random((200, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=NOISE)
    right = 0
    for seed in range(10):
        y = prior.sample(X, 1, seed)[0] + NOISE**0.5 * np.random.default_rng(seed).standard_normal(len(X))
        found = leave_out(*_one_point(prior.condition(X, y)), correlated=True)
        different = len(np.unique(found.index))
        assert different < len(found)
        right += diagnose(found.z, found.correlation, different).right
    assert right >= 8


def _one_point(model: cagp.Model) -> tuple[cagp.Model, StandIns]:
    return model, matching(model.components[0]).stand_ins(torch.tensor([[0.5, 0.5]], dtype=torch.float64), 200, 0)
