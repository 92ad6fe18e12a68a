"""Joblib's own processes and threads: who is asked, what they are sent, and what comes back."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
import torch

import cagp
from cagp.support.interrupt import Interrupt
from cagp.workers.pool import Parcel, Pool, find_pool
from problems import make_problem
from slow_batches import Counted, Failing, check_ctrl_c

PROBLEM = make_problem(T=19)


def model(solver: cagp.Solver) -> cagp.Model:
    return PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver)


def test_who_is_asked() -> None:
    assert find_pool(None) is None
    assert find_pool(1) is None
    assert find_pool(3) == Pool(3, 3, shared=False, elsewhere=False)
    with joblib.parallel_config(n_jobs=2):
        assert find_pool(None) == Pool(2, 2, shared=False, elsewhere=False)
        assert find_pool(1) is None
    with joblib.parallel_config(backend="loky"):
        assert find_pool(None) is None  # no number of jobs: joblib itself would take one
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert find_pool(None) == Pool(2, 2, shared=True, elsewhere=False)
    with joblib.parallel_config(backend="sequential"):
        assert find_pool(None) is None


@pytest.mark.parametrize("n_jobs", [0, True, 1.5, "two"])
def test_bad_numbers_of_jobs(n_jobs: object) -> None:
    with pytest.raises(cagp.InputError, match="n_jobs must be a number of processes"):
        model(cagp.Cholesky()).predict(PROBLEM.X_test, n_jobs=n_jobs)


def test_without_joblib() -> None:
    code = (
        "import sys; sys.modules['joblib'] = None\n"
        "import numpy as np, cagp\n"
        "X = np.random.default_rng(0).random((20, 2))\n"
        "model = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01).condition(X, X[:, 0], cagp.GaussSeidel(2))\n"
        "print(model.predict(X[:3]).mean.shape)\n"
        "try: model.predict(X[:3], n_jobs=2)\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["(3,)", 'n_jobs needs joblib: pip install "cagp[cluster]"']


def test_processes_bit_for_bit() -> None:
    """With the same batches; this process computes with as many threads as joblib gives to each of two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for solver in (cagp.GaussSeidel(3), cagp.NearestNeighbours(6)):
            here = model(solver).predict(PROBLEM.X_test, batch_size=4)
            with joblib.parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
                there = model(solver).predict(PROBLEM.X_test, batch_size=4)
            assert np.array_equal(here.mean, there.mean)
            assert np.array_equal(here.variance, there.variance)
            assert str(there.status).endswith("In 5 batches on 2 workers.")
        (inside,) = joblib.Parallel(n_jobs=2)([joblib.delayed(find_pool)(None)])
        assert inside is None  # a process of joblib does its work alone
    finally:
        torch.set_num_threads(threads)


def test_threads_share_the_model(tmp_path: Path) -> None:
    counted = model(Counted(2, folder=str(tmp_path)))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        post = counted.predict(PROBLEM.X_test)
    assert len(list(tmp_path.iterdir())) == 1
    np.testing.assert_allclose(post.mean, model(cagp.GaussSeidel(2)).predict(PROBLEM.X_test).mean, rtol=1e-12)
    assert str(post.status).endswith("In 7 batches on 2 workers.")  # three test points each, so that all get some


def test_workers_may_have_a_device_of_their_own(tmp_path: Path) -> None:
    counted = model(Counted(2, folder=str(tmp_path)))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        post = counted.predict(PROBLEM.X_test, devices="cpu")
    assert len(list(tmp_path.iterdir())) == 2  # the model here, and one copy for both threads
    np.testing.assert_allclose(post.mean, counted.predict(PROBLEM.X_test).mean, rtol=1e-12)


def test_ctrl_c_keeps_finished_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        check_ctrl_c(tmp_path, monkeypatch)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_waiting_interrupts_at_once() -> None:
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt), interrupt.waiting():
            signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
        assert not interrupt.insisted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupt.insisted


def test_errors_come_back_as_they_are() -> None:
    with (
        joblib.parallel_config(backend="threading", n_jobs=2),
        pytest.raises(cagp.NotPositiveDefiniteError, match="this batch has no solution"),
    ):
        model(Failing(2)).predict(PROBLEM.X_test)


def test_a_copy_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model(cagp.GaussSeidel(2))
    monkeypatch.setattr("cagp.predicting.conditioned.available_bytes", lambda device: 40 * 40 * 8 - 1)
    with pytest.raises(cagp.MemoryBudgetError, match=r"dense Gram matrix of 40 points, needs 12\.5 KiB"):
        made.components[0].copy_on("cpu")


def test_the_recipe_is_nobody_elses_memory() -> None:
    X = PROBLEM.X.copy()
    made = PROBLEM.prior.condition(X, PROBLEM.y, cagp.GaussSeidel(2))
    before = made.predict(PROBLEM.X_test).mean
    X[:] = 0
    assert np.array_equal(cagp.Model([made.components[0].rebuilt()]).predict(PROBLEM.X_test).mean, before)


def test_the_recipe_of_a_mean_from_the_data() -> None:
    prior = cagp.Prior(PROBLEM.prior.kernel, mean=cagp.Polynomial(1), noise_variance=0.05)
    made = prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(2), solve_dtype="float32", storage="tiles")
    again = cagp.Model([made.components[0].rebuilt()])
    assert again.prior == made.prior
    assert repr(again) == repr(made)
    assert np.array_equal(again.predict(PROBLEM.X_test).mean, made.predict(PROBLEM.X_test).mean)


# --- parcels ----------------------------------------------------------------------------------------------------------


class Thing:
    """Something that may be let go."""

    made = 0

    def __init__(self, name: str) -> None:
        Thing.made += 1
        self.name = name


def test_parcels_are_opened_once_and_the_last_is_kept() -> None:
    first, same, other = (Parcel.of(partial(Thing, name)) for name in ("a", "a", "b"))
    Thing.made = 0
    opened = first.open()
    assert same.open() is opened
    gone = weakref.ref(opened)
    del opened
    assert other.open().name == "b"
    gc.collect()
    assert gone() is None  # let go, so that no more than one fills the memory
    assert Thing.made == 2
    assert first.open().name == "a"


def test_threads_wait_for_one_parcel() -> None:
    parcel, found = Parcel.of(partial(SimpleNamespace, a=1)), []
    threads = [threading.Thread(target=lambda: found.append(parcel.open())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(thing) for thing in found}) == 1


def test_a_failure_is_not_kept() -> None:
    parcel = Parcel.of(partial(int, "no number"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no number"):
            parcel.open()
