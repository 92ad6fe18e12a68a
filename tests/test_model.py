"""Conditioning and predicting: inputs of all kinds, batches, Ctrl-C."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.algebra.weights import Weights
from cagp.gram import Gram
from cagp.support.interrupt import Interrupt
from problems import make_problem

PROBLEM = make_problem()


def predict(X: object, y: object, X_test: object, **settings: object) -> cagp.Posterior:
    return PROBLEM.prior.condition(X, y, cagp.GaussSeidel(3), **settings).predict(X_test)


REFERENCE = predict(PROBLEM.X, PROBLEM.y, PROBLEM.X_test)


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.tolist(),
        np.asfortranarray,
        lambda a: np.ascontiguousarray(a[::-1])[::-1],
        lambda a: a.astype(">f8"),
        lambda a: np.stack([a, a], axis=-1)[..., 0],
        lambda a: torch.from_numpy(a.copy()),
        lambda a: torch.from_numpy(a.copy()).requires_grad_(),
    ],
    ids=["lists", "Fortran", "reversed", "big-endian", "strided", "torch", "torch with gradient"],
)
def test_any_layout_gives_the_same_answer(convert: object) -> None:
    post = predict(convert(PROBLEM.X), convert(PROBLEM.y), PROBLEM.X_test)
    assert_allclose(post.mean, REFERENCE.mean, rtol=1e-12)
    assert_allclose(post.variance, REFERENCE.variance, rtol=1e-12)


def test_integers_and_float32_are_exact_inputs() -> None:
    X = np.arange(10)[:, None]
    y = np.arange(10) % 3
    prior = cagp.Prior(cagp.Matern32(2.0), noise_variance=0.1)

    def mean(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return prior.condition(X, y, cagp.Cholesky()).predict(X).mean

    expected = mean(X.astype(float), y.astype(float))
    for dtype in (np.int8, np.uint16, np.int64, np.uint64, np.float32, np.float16):
        assert_allclose(mean(X.astype(dtype), y.astype(dtype)), expected, rtol=1e-14)
    assert mean(X.astype(np.float32), y).dtype == np.float64


def test_inputs_are_not_changed() -> None:
    X, y, X_test = PROBLEM.X.copy(), PROBLEM.y.copy(), PROBLEM.X_test.copy()
    predict(X, y, X_test)
    assert_allclose(X, PROBLEM.X, rtol=0)
    assert_allclose(y, PROBLEM.y, rtol=0)
    assert_allclose(X_test, PROBLEM.X_test, rtol=0)


def test_duplicates_and_constant_y() -> None:
    X = np.repeat(PROBLEM.X[:10], 3, axis=0)
    y = np.full(30, 2.0)
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.05)
    post = prior.condition(X, y, cagp.GaussSeidel(2000)).predict(PROBLEM.X_test)
    assert_allclose(post.mean, 2.0, rtol=1e-12)
    # three observations of one point are one observation with a third of the noise
    thrice = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.05 / 3)
    once = thrice.condition(PROBLEM.X[:10], y[:10], cagp.Cholesky()).predict(PROBLEM.X_test)
    assert_allclose(post.variance, once.variance, rtol=1e-8)


def test_test_points_on_training_points() -> None:
    post = predict(PROBLEM.X, PROBLEM.y, PROBLEM.X)
    assert (post.variance > 0).all()
    assert (post.variance < 1.7).all()


def test_solver_by_name() -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, "gauss-seidel")
    assert model.solver == cagp.GaussSeidel()
    assert "GaussSeidel()" in repr(model)


def test_batches_follow_the_budget() -> None:
    """A budget that holds only a few test points at a time gives the same answer."""
    budget = 40 * 40 * 8 + 3 * 6 * 40 * 8 + 10_000
    post = predict(PROBLEM.X, PROBLEM.y, PROBLEM.X_test, memory_budget=budget)
    assert_allclose(post.variance, REFERENCE.variance, rtol=1e-12)


class _Stops(cagp.GaussSeidel):
    """Presses Ctrl-C once, during its second iteration."""

    def prepare(self, gram: Gram) -> object:
        prepared = super().prepare(gram)
        original, presses = prepared.weights, iter([True])

        def weights(cross: object) -> Iterator[object]:
            for iterate in original(cross):
                if iterate.iteration == 2 and next(presses, False):
                    os.kill(os.getpid(), signal.SIGINT)
                yield iterate

        prepared.weights = weights
        return prepared


def test_ctrl_c_keeps_what_was_computed() -> None:
    before = signal.getsignal(signal.SIGINT)
    post = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, _Stops(50)).predict(PROBLEM.X_test, batch_size=4)
    assert signal.getsignal(signal.SIGINT) is before
    assert post.status.reason == "interrupted"
    assert "4 test points after iteration 2, 3 test points after iteration 0" in str(post.status)
    assert post.iterations.tolist() == [2] * 4 + [0] * 3
    two = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(2)).predict(PROBLEM.X_test)
    assert_allclose(post.variance[:4], two.variance[:4], rtol=1e-12)
    assert_allclose(post.variance[4:], 1.7)
    truth = post.variance - np.diag(PROBLEM.exact_covariance)
    assert (truth <= post.computational_variance.upper * (1 + 1e-8)).all()


def test_second_ctrl_c_interrupts_at_once() -> None:
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_progress_is_silent_when_not_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    predict(PROBLEM.X, PROBLEM.y, PROBLEM.X_test)
    assert capfd.readouterr() == ("", "")


def test_prior_equality() -> None:
    assert PROBLEM.prior == make_problem().prior
    assert make_problem(noise=None).prior == make_problem(noise=None).prior
    assert PROBLEM.prior != make_problem(noise=0.1).prior


def test_neighbours_need_no_memory_for_the_rest_of_the_data() -> None:
    """Half a million numbers of budget predict 1,000 points from 1,500: the dense weights alone would take 12 MB."""
    problem = make_problem(d=1500, T=1000, noise=0.05)
    prior = cagp.Prior(cagp.Matern32(0.1), noise_variance=0.05)
    model = prior.condition(problem.X, problem.y, cagp.NearestNeighbours(20), storage="tiles", memory_budget=4e6)
    post = model.predict(problem.X_test)
    assert len(post._batches) == 1
    bounds = post.computational_variance
    exact = prior.condition(problem.X, problem.y, cagp.Cholesky()).predict(problem.X_test).variance
    assert (bounds.lower <= post.variance - exact + 1e-9).all()
    assert (post.variance - exact <= bounds.upper + 1e-9).all()
    with pytest.raises(cagp.MemoryBudgetError, match="as a dense matrix"):
        post.covariance()


def test_neighbours_hear_ctrl_c_between_test_points(monkeypatch: pytest.MonkeyPatch) -> None:
    from cagp.solvers import nearest_neighbours

    monkeypatch.setattr("cagp.solvers.local_kriging._BATCH_BYTES", {"cpu": 2 * 5 * 5 * 8})  # two test points at a time
    monkeypatch.setattr(nearest_neighbours, "_BATCHES_AT_ONCE", {"cpu": 1})
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.NearestNeighbours(5))
    original, presses = model.prepared.final, iter([False, True])

    def final(cross: object) -> object:
        if next(presses, False):
            os.kill(os.getpid(), signal.SIGINT)
        return original(cross)

    whole = model.predict(PROBLEM.X_test)
    monkeypatch.setattr(model.prepared, "final", final)
    post = model.predict(PROBLEM.X_test)
    assert post.iterations.tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert "4 test points after iteration 1, 3 test points after iteration 0" in str(post.status)
    assert_allclose(post.variance[:4], whole.variance[:4], rtol=1e-12)
    assert_allclose(post.variance[4:], 1.7)
    assert_allclose(np.diag(PROBLEM.covariance(post.weights)), post.variance, rtol=1e-9)


@pytest.mark.parametrize("solver", [cagp.GaussSeidel(3), cagp.NearestNeighbours(5), cagp.Cholesky()], ids=repr)
def test_models_and_posteriors_can_be_pickled(solver: cagp.Solver) -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver)
    post = model.predict(PROBLEM.X_test)
    again = pickle.loads(pickle.dumps(post))
    assert_allclose(again.mean, post.mean, rtol=0)
    assert_allclose(again.covariance(), post.covariance(), rtol=1e-12)
    assert not pickle.loads(pickle.dumps(model)).gram.computed  # the matrix is not carried along
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(PROBLEM.X_test).variance, post.variance, rtol=1e-12)


def test_columns_of_data_frames_must_agree() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(PROBLEM.X, columns=["a", "b"])
    test = pandas.DataFrame(PROBLEM.X_test, columns=["a", "b"])
    model = PROBLEM.prior.condition(frame, pandas.Series(PROBLEM.y), cagp.GaussSeidel(3))
    assert_allclose(model.predict(test).mean, REFERENCE.mean, rtol=1e-12)
    assert_allclose(model.predict(PROBLEM.X_test).mean, REFERENCE.mean, rtol=1e-12)
    with pytest.raises(cagp.InputError, match=r"put them in the same order: X_test\[\['a', 'b'\]\]"):
        model.predict(test[["b", "a"]])


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), torch.float32])
def test_dtypes_from_numpy_torch_or_text(dtype: object) -> None:
    assert predict(PROBLEM.X, PROBLEM.y, PROBLEM.X_test, dtype=dtype).mean.dtype == np.float32


def test_one_step_solvers_are_not_stopped() -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y)  # auto: Cholesky at this size
    post = model.predict(PROBLEM.X_test, stop=cagp.stopping.ComputationalShare(0.05))
    assert str(post.status).startswith("Cholesky solved the system exactly")
    assert "nothing for a rule to stop" in str(post.status)


def test_a_single_point_is_told_how_to_be_one() -> None:
    with pytest.raises(cagp.InputError, match=r"reshape\(1, -1\) makes it one point"):
        PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y).predict(PROBLEM.X_test[0])


def test_the_data_are_kept_as_they_were() -> None:
    problem = make_problem()
    X, y = problem.X.copy(), problem.y.copy()
    model = problem.prior.condition(X, y, cagp.GaussSeidel(3))
    X[:], y[:] = 0.0, 0.0
    assert np.array_equal(model.X, problem.X)
    assert np.array_equal(model.y, problem.y)
    assert model.column_names is None


def test_only_some_iterations() -> None:
    problem = make_problem()
    model = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(5), solve_dtype="float32")
    every = list(model.iterate(problem.X_test))
    some = list(model.iterate(problem.X_test, only=(2, 5, 9)))
    assert [int(post.iterations[0]) for post in some] == [2, 5]
    for post, same in zip(some, (every[1], every[4]), strict=True):
        np.testing.assert_array_equal(post.variance, same.variance)


@pytest.fixture
def longest_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of full length were made of sparse weights, each time."""
    made: list[int] = []
    dense = Weights.dense

    def counted(self: Weights) -> torch.Tensor:
        if self.indices is not None:
            made.append(len(self.values))
        return dense(self)

    monkeypatch.setattr(Weights, "dense", counted)
    return made


@pytest.mark.parametrize("solver", [cagp.NearestNeighbours(5), cagp.Subset(5)], ids=repr)
def test_bounds_of_weights_that_were_not_kept_stay_within_the_budget(
    solver: cagp.Solver, longest_rows: list[int]
) -> None:
    problem = make_problem(d=300, T=1000)
    model = problem.prior.condition(problem.X, problem.y, solver, storage="tiles", memory_budget=2**20)
    expected = model.predict(problem.X_test).computational_variance.lower
    found = model.predict(problem.X_test, devices=["cpu", "cpu"]).computational_variance.lower
    assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
    assert max(longest_rows) * 300 * 8 < 2**20


def test_certificates_of_sparse_weights_stay_within_the_budget(longest_rows: list[int]) -> None:
    problem = make_problem(d=300, T=1000)
    options = {"storage": "tiles", "memory_budget": 2**20, "solve_dtype": "float32"}
    model = problem.prior.condition(problem.X, problem.y, cagp.NearestNeighbours(5), **options)
    post = model.predict(problem.X_test)
    exact = problem.prior.condition(problem.X, problem.y, cagp.NearestNeighbours(5)).predict(problem.X_test)
    assert_allclose(post.variance, exact.variance, rtol=1e-4)
    assert max(longest_rows) * 300 * 8 < 2**20


@pytest.mark.parametrize(
    ("solver", "held", "budget"),
    [
        (cagp.Cholesky(), 300 * 300 * 8, 1_800_000),
        (cagp.GaussSeidel(1, block_size=100), 300 * 100 * 8, 2**20),
        (cagp.CalibratedCG(1, cagp.Nystrom(30)), 300 * 31 * 8, 2**20),
        (cagp.CalibratedCG(1, cagp.SymmetricGaussSeidel(100)), 300 * 100 * 8, 2**20),
        (
            cagp.Chain([cagp.GaussSeidel(1, block_size=100), cagp.CalibratedCG(1, cagp.Nystrom(30))]),
            300 * 131 * 8,
            2**20,
        ),
    ],
    ids=repr,
)
def test_batches_leave_room_for_what_the_solver_keeps(solver: cagp.Solver, held: int, budget: int) -> None:
    problem = make_problem(d=300, T=100)
    model = problem.prior.condition(problem.X, problem.y, solver, storage="tiles", memory_budget=budget)
    assert model.prepared.held_bytes == held
    batch = model.predict(problem.X_test)._batches[0].cross.size
    assert batch < 100
    assert batch * model.prepared.numbers_per_test_point * 8 + held <= budget


def test_blocks_of_neighbours_stay_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp.solvers.local_kriging._BATCH_BYTES", {"cpu": 2**30})  # as on a GPU
    problem, budget = make_problem(d=300, T=100), 2**18
    options = {"storage": "tiles", "memory_budget": budget}
    model = problem.prior.condition(problem.X, problem.y, cagp.NearestNeighbours(20), **options)
    assert model.prepared._kriging.batch(20) * 4 * 20**2 * 8 <= budget
    exact = problem.prior.condition(problem.X, problem.y, cagp.NearestNeighbours(20)).predict(problem.X_test)
    assert_allclose(model.predict(problem.X_test).variance, exact.variance, rtol=1e-12)
