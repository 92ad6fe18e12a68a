"""Several devices, each with a copy of the model: here two copies on the CPU, CUDA devices where there are some."""

from __future__ import annotations

import contextlib
import gc
import pickle
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from problems import make_problem
from slow_batches import Counted, Failing, check_ctrl_c

PROBLEM = make_problem(T=19)
SOLVERS = [
    cagp.Cholesky(),
    cagp.GaussSeidel(3),
    cagp.CalibratedCG(4, cagp.Nystrom(10)),
    cagp.NearestNeighbours(8),
    cagp.ConjugateGradient(4),
]


def model(solver: cagp.Solver, **options: object) -> cagp.Model:
    return PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, **options)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_two_copies_give_what_one_gives(solver: cagp.Solver) -> None:
    made = model(solver)
    one, two = (made.predict(PROBLEM.X_test, batch_size=4, devices=devices) for devices in (None, ["cpu", "cpu"]))
    assert_allclose(two.mean, one.mean, rtol=1e-12)
    assert_allclose(two.variance, one.variance, rtol=1e-12)
    assert np.array_equal(two.iterations, one.iterations)
    assert str(two.status).endswith("In 5 batches on 2 devices (cpu, cpu).")


def test_joint_results() -> None:
    made = model(cagp.GaussSeidel(3))
    one, two = (made.predict(PROBLEM.X_test, devices=devices) for devices in (None, ["cpu", "cpu"]))
    assert_allclose(two.covariance(), one.covariance(), rtol=1e-9, atol=1e-12)
    assert_allclose(two.computational_variance.upper, one.computational_variance.upper, rtol=1e-6)


def test_copies_are_kept_with_the_model_and_no_longer(tmp_path: Path) -> None:
    made = model(Counted(2, folder=str(tmp_path)))
    for _ in range(3):
        made.predict(PROBLEM.X_test, devices=["cpu", "cpu", "cpu"])
    assert len(list(tmp_path.iterdir())) == 3  # the model itself is one of the three
    assert len(pickle.dumps(made)) < 2 * len(pickle.dumps(model(Counted(2, folder=str(tmp_path)))))
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_stopping_rules() -> None:
    made = model(cagp.CalibratedCG(40, cagp.Nystrom(5)))
    rule = cagp.stopping.ComputationalShare(0.05) | cagp.stopping.Iterations(8)
    one, two = (made.predict(PROBLEM.X_test, stop=rule, devices=devices) for devices in (None, ["cpu", "cpu"]))
    assert np.array_equal(two.iterations, one.iterations)
    assert two.status.reason == "stopped"


def test_ctrl_c_is_heard_after_the_iteration_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_ctrl_c(tmp_path, monkeypatch, last=1, devices=["cpu", "cpu"])


def test_errors_come_back_as_they_are() -> None:
    with pytest.raises(cagp.NotPositiveDefiniteError, match="this batch has no solution"):
        model(Failing(2)).predict(PROBLEM.X_test, devices=["cpu", "cpu"])


@pytest.mark.parametrize("solver", [cagp.GaussSeidel(3), Failing(2)], ids=repr)
def test_no_thread_is_left_behind(solver: cagp.Solver) -> None:
    before = set(threading.enumerate())
    with contextlib.suppress(cagp.NotPositiveDefiniteError):
        model(solver).predict(PROBLEM.X_test, devices=["cpu"] * 4)
    assert set(threading.enumerate()) <= before  # those of other tests may end meanwhile


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([], "devices must be"),
        ([0, 1], "devices must be"),
        ("nowhere", "'nowhere', which is not to be had here"),
        (["cpu", "cuda:99"], "'cuda:99', which is not to be had here"),
        pytest.param(
            "all",
            "there is none",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device"),
        ),
    ],
)
def test_bad_devices(devices: object, message: str) -> None:
    with pytest.raises(cagp.InputError, match=message):
        model(cagp.GaussSeidel(2)).predict(PROBLEM.X_test, devices=devices)


@pytest.mark.gpu
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_all_cuda_devices(solver: cagp.Solver) -> None:
    """With one device two copies share it; with more, each has its own."""
    n = torch.cuda.device_count()
    devices = "all" if n > 1 else ["cuda:0", "cuda:0"]
    made = model(solver, device="cuda")
    one, all_ = (made.predict(PROBLEM.X_test, batch_size=4, devices=names) for names in (None, devices))
    assert_allclose(all_.mean, one.mean, rtol=1e-9)
    assert_allclose(all_.variance, one.variance, rtol=1e-9)
    # on a GPU the neighbours are each point's own, on a CPU those of its cell: so compare with a model on the GPU
    from_cpu = model(solver).predict(PROBLEM.X_test, devices=devices)
    assert_allclose(from_cpu.mean, made.predict(PROBLEM.X_test).mean, rtol=1e-6)
