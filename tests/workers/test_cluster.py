"""A Dask cluster gives what one process gives, bit for bit where batches and threads are the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.calibration import simulation_based_calibration
from cagp.workers.pool import Pool, find_pool
from problems import make_problem
from slow_batches import Counted, Failing, check_ctrl_c

distributed = pytest.importorskip("distributed")

PROBLEM = make_problem(d=60, T=23)
SOLVERS = [
    cagp.Cholesky(),
    cagp.GaussSeidel(3),
    cagp.CalibratedCG(4, cagp.Nystrom(10)),
    cagp.NearestNeighbours(8),
    cagp.ConjugateGradient(4),
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two processes on this machine, with as many threads for torch as this process has."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    threads = dict.fromkeys(names, str(torch.get_num_threads()))
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        mock.patch.dict(os.environ),  # Dask leaves these numbers behind, for every process that is started later
        distributed.LocalCluster(**options, env=threads) as cluster,
        distributed.Client(cluster) as client,
    ):
        folder = str(Path(__file__).parents[1])
        client.run(lambda: __import__("sys").path.insert(0, folder))
        yield client


@pytest.fixture
def on_cluster(client: Any) -> Iterator[None]:
    with joblib.parallel_config(backend="dask"):
        yield


def condition(solver: cagp.Solver, **options: Any) -> cagp.Model:
    return PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, **options)


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_predictions_are_the_same(solver: cagp.Solver) -> None:
    model = condition(solver)
    here = model.predict(PROBLEM.X_test, batch_size=3, n_jobs=1)
    there = model.predict(PROBLEM.X_test, batch_size=3)
    assert str(there.status).endswith("In 8 batches on 2 workers.")
    for name in ("iterations", "passes"):
        assert np.array_equal(getattr(here, name), getattr(there, name)), name
    for name in ("mean", "variance"):  # to the last digits, which threads decide
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(here.interval(0.9), there.interval(0.9), rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_joint_results_when_the_cluster_chose_the_batches(storage: str) -> None:
    """What one process would have had as one batch is one posterior, whose weights are computed when asked for."""
    model = condition(cagp.GaussSeidel(3), storage=storage, dtype="float32")
    here, there = model.predict(PROBLEM.X_test, n_jobs=1), model.predict(PROBLEM.X_test)
    assert_allclose(there.mean, here.mean, rtol=1e-4)
    assert_allclose(there.covariance(), here.covariance(), atol=1e-4)
    assert_allclose(there.weights, here.weights, atol=1e-4)
    assert there.sample(3).shape == (3, 23)
    for name in ("lower", "estimate", "upper"):  # by the workers there, in this process here
        bounds = (getattr(post.computational_variance, name) for post in (there, here))
        assert_allclose(*bounds, rtol=1e-3)


@pytest.mark.usefixtures("on_cluster")
def test_stopping_rules() -> None:
    model = condition(cagp.CalibratedCG(40, cagp.Nystrom(5)))
    rule = cagp.stopping.ComputationalShare(0.05) | cagp.stopping.Iterations(8) | cagp.stopping.Seconds(1e6)
    here, there = (model.predict(PROBLEM.X_test, stop=rule, batch_size=5, n_jobs=n) for n in (1, None))
    assert np.array_equal(here.iterations, there.iterations)
    assert np.array_equal(here.variance, there.variance)
    assert there.status.reason == "stopped"
    assert str(there.status).partition(" (")[0] == str(here.status).partition(" (")[0]
    late = model.predict(PROBLEM.X_test, stop=cagp.stopping.Seconds(1e-6), batch_size=5)
    assert late.iterations.tolist() == [1] * 23


@pytest.mark.usefixtures("on_cluster")
def test_functions_travel_and_torch_comes_back() -> None:
    prior = cagp.Prior(PROBLEM.prior.kernel, mean=lambda X: 3 * X[:, 0], noise_variance=0.05)
    X, y, test = (torch.from_numpy(array) for array in (PROBLEM.X, PROBLEM.y, PROBLEM.X_test))
    model = prior.condition(X, y, cagp.GaussSeidel(2))
    there = model.predict(test, batch_size=4)
    assert torch.equal(there.mean, model.predict(test, batch_size=4, n_jobs=1).mean)


@pytest.mark.usefixtures("on_cluster")
def test_each_worker_prepares_once_for_several_predictions(tmp_path: Path) -> None:
    model = condition(Counted(2, folder=str(tmp_path)))
    for _ in range(2):
        model.predict(PROBLEM.X_test, batch_size=2)
    notes = [note.name.partition("-")[0] for note in tmp_path.iterdir()]
    assert len(notes) == len(set(notes)) == 3  # this process and two workers


@pytest.mark.usefixtures("on_cluster")
def test_errors_come_back_as_they_are() -> None:
    with pytest.raises(cagp.NotPositiveDefiniteError, match="this batch has no solution"):
        condition(Failing(2)).predict(PROBLEM.X_test, batch_size=2)
    with pytest.raises(cagp.InputError, match="have one each"):
        condition(cagp.GaussSeidel(2)).predict(PROBLEM.X_test, devices=["cpu", "cpu"])


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.parametrize("solver", [cagp.GaussSeidel(3), cagp.ConjugateGradient(3)], ids=repr)
def test_simulation_based_calibration(solver: cagp.Solver) -> None:
    here, there = (
        simulation_based_calibration(PROBLEM.prior, PROBLEM.X, PROBLEM.X_test, solver, 37, n_jobs=n) for n in (1, None)
    )
    assert np.array_equal(here.z, there.z)
    assert here.solves == there.solves


@pytest.mark.usefixtures("on_cluster")
def test_ctrl_c_keeps_finished_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_ctrl_c(tmp_path, monkeypatch)


@pytest.mark.usefixtures("client")
def test_a_cluster_is_used_inside_its_context_only() -> None:
    assert find_pool(None) is None
    with joblib.parallel_config(backend="dask"):
        assert find_pool(1) is None
        assert find_pool(None) == Pool(2, None, shared=False, elsewhere=True)
