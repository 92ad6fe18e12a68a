"""Small problems are worked on by one thread: beside a busy process a second one costs more than it ever gains."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

import cagp
from cagp import hyperparameters
from cagp.solvers import local_kriging
from cagp.support import threads

BLAS = ThreadpoolController().select(user_api="blas")


def counts() -> tuple[int, ...]:
    """The threads of torch, and those of every BLAS of NumPy and SciPy."""
    return torch.get_num_threads(), *sorted({each["num_threads"] for each in BLAS.info()})


ONE, ALL = (1, 1), (2, 2)


SEEN: set[tuple[int, ...]] = set()


class Watched(cagp.Matern32):
    """A kernel that notes how many threads there are when it is given points."""

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Any:
        SEEN.add(counts())
        return super().embed(X, origin)


def during(call: Callable[[], object]) -> set[tuple[int, ...]]:
    """What a watched kernel sees while something is done."""
    SEEN.clear()
    call()
    return set(SEEN)


def set_blas(threads: int) -> None:
    """In a thread that ends: as long as one lives that has set them, threadpoolctl lets no other."""
    setting = threading.Thread(target=lambda: threadpool_limits(threads, user_api="blas"))
    setting.start()
    setting.join()


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = counts()
    torch.set_num_threads(2)
    set_blas(2)
    yield
    torch.set_num_threads(before[0])
    set_blas(before[1])


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.random((n, 2))
    return X, np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(n)


PRIOR = cagp.Prior(Watched(0.3), noise_variance=0.01)


def test_a_small_problem_has_one_thread_and_the_others_come_back() -> None:
    X, y = data(60)
    assert during(lambda: PRIOR.condition(X, y, "cholesky")) == {ONE}
    model = PRIOR.condition(X, y, "cholesky")
    assert during(lambda: model.predict(X[:5])) == {ONE}
    assert during(lambda: hyperparameters.fit(PRIOR, X, y, n_restarts=0)) == {ONE}
    assert during(lambda: PRIOR.log_likelihood(X, y)) == {ONE}
    assert counts() == ALL


def test_the_front_door_has_one_thread_for_few_observations() -> None:
    X, y = data(40)
    options = {"uncertainty": False, "varying": False, "rotate": False, "recalibrate": False, "progress": False}
    assert during(lambda: cagp.fit(X, y, kernel=PRIOR.kernel, **options)) == {ONE}
    assert counts() == ALL


def test_a_large_problem_has_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_THREADS", 1e7)  # so that the large one here is soon done
    X, y = data(300)
    assert during(lambda: PRIOR.condition(X, y, "cholesky")) == {ALL}
    model = PRIOR.condition(X, y, "cholesky")
    assert during(lambda: model.predict(np.tile(X, (3, 1)))) == {ALL}
    fitted = {"n_restarts": 0, "max_iterations": 1, "standard_errors": False}
    assert during(lambda: hyperparameters.fit(PRIOR, X, y, **fitted)) == {ALL}
    assert counts() == ALL


def test_neighbours_have_one_thread_but_for_the_pieces_that_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_THREADS", 1e7)
    X, y = data(5_000)
    model = PRIOR.condition(X, y, cagp.NearestNeighbours(20))
    shared: list[tuple[int, bool]] = []

    def seen(work: Any, pieces: Any, device: torch.device, large: bool = False) -> None:
        shared.append((len(pieces), large))
        threads.share_out(work, pieces, device, large)

    monkeypatch.setattr(local_kriging, "share_out", seen)
    assert during(lambda: model.predict(X[:1])) == {ONE}
    assert shared.pop()[0] == 1
    assert during(lambda: model.predict(X)) == {ONE}
    assert max(number for number, _ in shared) > 1
    assert all(large for _, large in shared)


def test_large_pieces_have_all_threads_that_the_user_allows() -> None:
    both = threading.Barrier(2, timeout=300)  # who works alone waits here for ever
    with threads.threads_for(0):
        threads.share_out(lambda _: both.wait(), range(2), torch.device("cpu"), large=True)
        assert counts() == ONE
    assert counts() == ALL


def test_threads_come_back_after_an_error() -> None:
    X, y = data(60)

    def broken(points: torch.Tensor) -> torch.Tensor:
        raise ValueError("no mean here")

    with pytest.raises(ValueError, match="no mean here"):
        cagp.Prior(cagp.RBF(0.3), mean=broken).condition(X, y)
    assert counts() == ALL


def test_who_has_set_one_thread_keeps_it() -> None:
    torch.set_num_threads(1)
    X, y = data(60)
    assert during(lambda: PRIOR.condition(X, y, "cholesky")) == {(1, 2)}
    assert counts() == (1, 2)


def test_two_callers_at_once_leave_the_threads_as_they_were() -> None:
    X, y = data(30)
    both = threading.Barrier(2, timeout=300)
    seen: list[tuple[int, ...]] = []

    def mean(points: torch.Tensor) -> torch.Tensor:
        both.wait()  # both are inside
        seen.append(counts()[1:])
        both.wait()
        return torch.zeros(len(points), dtype=torch.float64)

    def call() -> None:
        torch.set_num_threads(2)
        cagp.Prior(cagp.RBF(0.3), mean=mean, noise_variance=0.01).condition(X, y)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert set(seen) == {(1,)}
    assert counts()[1:] == ALL[1:]


def test_what_auto_prepares_in_a_prediction_has_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    prepare = cagp.Cholesky.prepare
    monkeypatch.setattr(cagp.Cholesky, "prepare", lambda self, gram: (seen.append(counts()), prepare(self, gram))[1])
    X = np.random.default_rng(0).random((2500, 30))
    model = cagp.Prior(cagp.Matern32(2.0), noise_variance=0.01).condition(X, X[:, 0], "auto")
    assert not seen
    model.predict(X[:200] + 0.01)
    assert seen == [ALL]
