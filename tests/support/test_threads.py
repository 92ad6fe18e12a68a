"""Pieces of work shared out between threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.support.threads import share_out
from problems import make_problem

CPU = torch.device("cpu")


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_every_piece_is_done_once_on_threads_with_one_torch_thread_each() -> None:
    done: list[int] = []
    seen: set[tuple[str, int]] = set()
    together = threading.Barrier(3, timeout=300)

    def work(piece: int) -> None:
        together.wait()  # passes only if three pieces are worked on at the same time
        seen.add((threading.current_thread().name, torch.get_num_threads()))
        done.append(piece)

    share_out(work, range(12), CPU)
    assert sorted(done) == list(range(12))
    assert len(seen) == 3
    assert {count for _, count in seen} == {1}


@pytest.mark.usefixtures("three_threads")
def test_the_number_of_threads_is_left_as_it_was() -> None:
    share_out(lambda piece: None, range(5), CPU)
    counts: list[int] = []
    fresh = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    fresh.start()
    fresh.join()
    assert (torch.get_num_threads(), counts) == (3, [3])


@pytest.mark.usefixtures("three_threads")
def test_a_thread_that_begins_when_the_work_is_done_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    finished, set_threads = threading.Event(), torch.set_num_threads
    late = iter([False, True, True])

    def set_late(n: int) -> None:
        if n == 1 and next(late):
            finished.wait(timeout=300)
            time.sleep(0.2)  # until the caller has seen the end of the work
        set_threads(n)

    def work(piece: int) -> None:
        if piece == 4:
            finished.set()

    monkeypatch.setattr(torch, "set_num_threads", set_late)
    share_out(work, range(5), CPU)
    counts: list[int] = []
    fresh = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    fresh.start()
    fresh.join()
    assert counts == [3]


@pytest.mark.usefixtures("three_threads")
def test_an_error_in_one_piece_is_raised_and_the_rest_is_left() -> None:
    done: list[int] = []

    def work(piece: int) -> None:
        if piece == 2:
            raise ValueError("piece 2")
        done.append(piece)

    with pytest.raises(ValueError, match="piece 2"):
        share_out(work, range(10_000), CPU)
    assert len(done) < 10_000
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_neighbours_on_several_threads_are_what_numpy_finds_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp.solvers.nearest_neighbours._BATCH_BYTES", {"cpu": 8 * 6 * 6 * 4})  # four to a batch
    monkeypatch.setattr("cagp.solvers.nearest_neighbours._BATCHES_AT_ONCE", {"cpu": 5})
    problem = make_problem(d=60, T=47)
    post = problem.prior.condition(problem.X, problem.y, cagp.NearestNeighbours(6)).predict(problem.X_test)
    for t, x in enumerate(problem.X_test):
        near = np.argsort(((problem.X - x) ** 2).sum(axis=1))[:6]
        v = problem.V[t, near]
        w = np.linalg.solve(problem.G[np.ix_(near, near)], v)
        assert_allclose(post.mean[t], w @ problem.y[near], rtol=1e-9, atol=1e-12)
        assert_allclose(post.variance[t], problem.K[t, t] - w @ v, rtol=1e-9)
