"""Models that are given further observations: what is used again, arithmetic, noise, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import cagp
from cagp.errors import InputError, NotPositiveDefiniteError
from cagp.gram import Gram
from problems import make_problem
from random_examples import examples

PROBLEM = make_problem(d=60, noise=0.05)
X, Y, X_TEST = PROBLEM.X, PROBLEM.y, PROBLEM.X_test


def first(n: int, solver: cagp.Solver | str = "cholesky", **settings: object) -> cagp.Model:
    return PROBLEM.prior.condition(X[:n], Y[:n], solver, **settings)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.Auto()], ids=repr)
def test_the_factor_is_extended_and_is_that_of_dense_algebra(
    solver: cagp.Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = first(45, solver)
    small.predict(X_TEST)
    monkeypatch.setattr(Gram, "cholesky", lambda gram: pytest.fail("the factor is computed anew"))
    whole = small.with_more(X[45:], Y[45:])
    found = whole.predict(X_TEST)
    factor = whole.prepared.factor
    assert factor is not None
    assert_allclose(factor.numpy(), np.linalg.cholesky(PROBLEM.G), atol=1e-13)
    assert_allclose(found.mean, PROBLEM.exact_weights.T @ Y, atol=1e-12)
    assert_allclose(found.covariance(), PROBLEM.exact_covariance, atol=1e-12)
    assert found.status.reason == "finished"


@given(st.lists(st.integers(0, 59), max_size=4), st.sampled_from(["float64", "float32"]), st.booleans())
@examples(15)
def test_any_splits_in_any_arithmetic(cuts: list[int], solve_dtype: str, repeated: bool) -> None:
    """Also with observations of which several are at one place, and with batches of one."""
    places, values = (np.concatenate([each, each[:5]]) if repeated else each for each in (X, Y))
    ends = sorted({1, *cuts} - {0})
    prior = replace(PROBLEM.prior, mean=cagp.Constant())
    model = prior.condition(places[:1], values[:1], "cholesky", solve_dtype=solve_dtype)
    for start, stop in zip(ends, [*ends[1:], len(values)], strict=True):
        model = model.with_more(places[start:stop], values[start:stop])
    wanted = prior.condition(places, values, "cholesky", solve_dtype=solve_dtype).predict(X_TEST)
    found, precision = model.predict(X_TEST), 1e-11 if solve_dtype == "float64" else 1e-4
    assert_array_equal(model.recipe.X, places)
    assert_allclose(found.mean, wanted.mean, atol=precision)
    assert_allclose(found.variance, wanted.variance, atol=precision)


def test_all_that_a_model_does() -> None:
    whole, wanted = first(45).with_more(X[45:], Y[45:]), first(60)
    assert_allclose(whole.left_out().z, wanted.left_out().z, rtol=1e-9)
    assert_allclose(whole.average(X_TEST).std, wanted.average(X_TEST).std, rtol=1e-9)
    assert_allclose(whole.simulate(X_TEST, 2, seed=3).fields, wanted.simulate(X_TEST, 2, seed=3).fields, atol=1e-9)
    assert_allclose(whole.with_observations(2 * Y).predict(X_TEST).mean, 2 * wanted.predict(X_TEST).mean, rtol=1e-9)
    single = first(45, dtype=torch.float32).with_more(X[45:], Y[45:]).predict(X_TEST)
    assert_allclose(single.mean, wanted.predict(X_TEST).mean, atol=1e-3)


def test_neighbours_are_those_of_a_new_model() -> None:
    """Far subsets are drawn from all points, and on a grid, where many are as near, the same ones are taken."""
    axis = np.linspace(0, 1, 24)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    values, test = np.sin(5 * grid[:, 0]), np.random.default_rng(1).random((60, 2))
    prior = cagp.Prior(cagp.Matern32(0.2), mean=cagp.Constant(), noise_variance=0.01)
    solver = cagp.NearestNeighbours(12, far=9)
    whole = prior.condition(grid[:500], values[:500], solver).with_more(grid[500:], values[500:])
    wanted = prior.condition(grid, values, solver)
    found, same = whole.predict(test), wanted.predict(test)
    assert_array_equal(found.weights != 0, same.weights != 0)
    assert_allclose(found.mean, same.mean, rtol=1e-10)
    assert_allclose(whole.average(test).std, wanted.average(test).std, rtol=1e-10)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    whole = first(45, device="cuda").with_more(X[45:], Y[45:])
    assert_allclose(whole.predict(X_TEST).mean, PROBLEM.exact_weights.T @ Y, atol=1e-10)
    near = first(45, cagp.NearestNeighbours(9), device="cuda").with_more(X[45:], Y[45:]).predict(X_TEST)
    same = first(60, cagp.NearestNeighbours(9), device="cuda").predict(X_TEST)
    assert_allclose(near.mean, same.mean, atol=1e-10)


def test_where_the_block_fails_the_whole_is_tried() -> None:
    """A copy of a point without noise is no worse in a block than in a new model: the same error."""
    exact = cagp.Prior(cagp.RBF(0.5), noise_variance=1e-30)
    model = exact.condition(X[:3], Y[:3], "cholesky")
    with pytest.raises(NotPositiveDefiniteError, match=r"the Gram matrix \(6 × 6"):
        model.with_more(X[:3], Y[:3])
    small = first(45, memory_budget=2 * 8 * 50**2)
    with pytest.raises(cagp.errors.MemoryBudgetError, match="Cholesky factor of 60 points"):
        small.with_more(X[45:], Y[45:])


def test_noise_of_the_new_observations() -> None:
    model = first(45)
    assert model.with_more(X[45:], Y[45:]).prior == model.prior
    assert model.with_more(X[45:], Y[45:], noise_variance=[0.05] * 15).prior == model.prior
    other = model.with_more(X[45:], Y[45:], noise_variance=0.2)
    assert_array_equal(other.prior.noise_variance, [0.05] * 45 + [0.2] * 15)
    noise = np.linspace(0.1, 0.3, 15)
    each = model.with_more(X[45:], Y[45:], noise_variance=torch.from_numpy(noise))
    problem = replace(PROBLEM, noise=np.concatenate([np.full(45, 0.05), noise]))
    assert_allclose(each.predict(X_TEST).mean, problem.exact_weights.T @ Y, atol=1e-12)
    with pytest.raises(InputError, match="noise variance for each observation, which says nothing about further"):
        each.with_more(X[:2], Y[:2])
    with pytest.raises(InputError, match="noise_variance has 3 values for 15 observations"):
        model.with_more(X[45:], Y[45:], noise_variance=[0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="positive everywhere, got 0 at index 1"):
        model.with_more(X[:2], Y[:2], noise_variance=[0.1, 0.0])


def test_noise_and_amplitude_that_vary_do_so_at_new_places() -> None:
    louder = cagp.Pattern(cagp.RBF(0.3), centres=[[0.0, 0.5], [1.0, 0.5]], values=[0.5, 2.0])
    kernel = cagp.Varying(cagp.Matern32(0.3), louder)
    prior = cagp.Prior(kernel, noise_variance=0.05, noise_pattern=louder)
    model, wanted = prior.condition(X[:45], Y[:45], "cholesky"), prior.condition(X, Y, "cholesky")
    whole = model.with_more(X[45:], Y[45:])
    assert whole.prior == prior
    assert_allclose(whole.predict(X_TEST).observed().std, wanted.predict(X_TEST).observed().std, rtol=1e-9)
    other = model.with_more(X[45:], Y[45:], noise_variance=0.2).prior
    assert_allclose(other.noise_variance[:45], 0.05 * louder(X[:45]) ** 2)
    assert_array_equal(other.noise_variance[45:], 0.2)


def test_frames_and_tensors() -> None:
    frame = pd.DataFrame(X, columns=["east", "north"])
    model = PROBLEM.prior.condition(frame[:45], Y[:45], "cholesky")
    whole = model.with_more(frame[45:], pd.Series(Y)[45:])
    assert whole.column_names == ["east", "north"]
    same = first(45).with_more(torch.from_numpy(X[45:]), Y[45:].tolist())
    assert_allclose(whole.predict(frame[:3]).mean, same.predict(X[:3]).mean, rtol=1e-12)
    with pytest.raises(InputError, match=r"put them in the same order: X\[\['east', 'north'\]\]"):
        model.with_more(frame[["north", "east"]], Y)


@pytest.mark.parametrize(
    ("places", "values", "said"),
    [
        (np.ones((2, 3)), [1.0, 2.0], "X has 3 columns, the training points have 2"),
        (np.ones((0, 2)), [], "X is empty"),
        ([[1.0, np.nan]], [1.0], "X has 1 values that are NaN or infinite"),
        ([[1.0, 2.0]], [np.inf], "y has 1 values that are NaN or infinite"),
        ([[1.0, 2.0]], [1.0, 2.0], "y has 2 values for 1 training points"),
        ([1.0, 2.0], [1.0], r"reshape\(1, -1\) makes it one point"),
    ],
)
def test_what_cannot_be_added_is_refused(places: object, values: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        first(20).with_more(places, values)


def test_the_kernel_is_asked_too() -> None:
    globe = cagp.Prior(cagp.Geographic(cagp.Matern32(0.2))).condition([[10.0, 20.0], [40.0, 80.0]], [1.0, 2.0])
    with pytest.raises(InputError, match="latitude of magnitude 100"):
        globe.with_more([[100.0, 0.0]], [3.0])


def test_observations_that_no_error_bar_explains_are_told() -> None:
    """Once, where the caller stands, with their rows; what a model with small error bars misses a little is not."""
    model = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05).condition(X[:45], Y[:45], "cholesky")
    more = Y[45:].copy()
    model.with_more(X[45:], more)
    more[[3, 5]] = -9999.0, 40.0
    with pytest.warns(cagp.errors.DataWarning, match="of the 15 new observations") as caught:
        whole = model.with_more(X[45:], more)
    (said,) = (str(each.message) for each in caught)
    assert "2 of the 15" in said
    assert "row 3 (counted from 0) with -9,999 for" in said.replace("−", "-")
    assert "row 5 (counted from 0) with 40 for" in said
    assert "Leave them out" in said
    assert caught[0].filename == __file__
    assert len(whole.y) == 60
    certain = cagp.Prior(cagp.RBF(1.0), noise_variance=1e-8).condition(X[:45], Y[:45] / 10, "cholesky")
    certain.with_more(X[45:46], [float(certain.predict(X[45:46]).mean[0]) + 0.05 * float(np.std(Y[:45] / 10))])


def test_of_thousands_the_most_extreme_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, sizes, predict = np.random.default_rng(0), [], cagp.Model.predict

    def counted(own: cagp.Model, places: torch.Tensor, **options: object) -> cagp.Prediction:
        sizes.append(len(places))
        return predict(own, places, **options)

    monkeypatch.setattr(cagp.Model, "predict", counted)
    places, values = rng.random((3000, X.shape[1])), rng.normal(size=3000)
    values[2345] = 1e6
    with pytest.warns(cagp.errors.DataWarning, match="1 of the 1,000 new observations .* row 2345 "):
        first(45, cagp.NearestNeighbours(5)).with_more(places, values, noise_variance=np.full(3000, 1.0))
    assert sizes == [1000]


@pytest.mark.parametrize("transform", [None, "log"])
def test_margins_and_a_transform_have_their_say(transform: str | None) -> None:
    positive = np.exp(Y) if transform else Y
    prior = PROBLEM.prior if transform is None else PROBLEM.prior.transformed(transform)
    model = prior.condition(X[:45], positive[:45], "cholesky").recalibrated()
    more = positive[45:].copy()
    model.with_more(X[45:], more)
    more[0] = 1e9
    with pytest.warns(cagp.errors.DataWarning, match="1 of the 15 .* row 0 "):
        model.with_more(X[45:], more)
