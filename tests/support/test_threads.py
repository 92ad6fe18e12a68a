"""Pieces of work shared out between threads."""

from __future__ import annotations

import os
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
def test_threads_that_begin_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that began after the work would leave behind that new threads start with one torch thread."""
    set_threads = torch.set_num_threads

    def set_late(n: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.2)
        set_threads(n)

    monkeypatch.setattr(torch, "set_num_threads", set_late)
    monkeypatch.setattr("cagp.support.threads._helpers", {})  # none have begun yet
    share_out(lambda piece: None, range(5), CPU)
    counts: list[int] = []
    fresh = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    fresh.start()
    fresh.join()
    assert counts == [3]


@pytest.mark.usefixtures("three_threads")
def test_helpers_are_kept_and_replaced_where_another_number_is_wanted() -> None:
    def names() -> set[str]:
        seen, together = set(), threading.Barrier(torch.get_num_threads(), timeout=300)

        def work(piece: int) -> None:
            together.wait()
            seen.add(threading.current_thread().name)

        share_out(work, range(torch.get_num_threads()), CPU)
        return seen

    first = names()
    assert names() == first
    torch.set_num_threads(2)
    assert len(names()) == 2


@pytest.mark.usefixtures("three_threads")
def test_helpers_that_cannot_start_leave_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp.support.threads._helpers", {})
    start, started = threading.Thread.start, []

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start"):
        share_out(lambda piece: None, range(5), CPU)
    monkeypatch.undo()
    assert torch.get_num_threads() == 3
    [waiting] = started
    waiting.join(timeout=60)  # it ends once nobody can give it work any more
    assert not waiting.is_alive()


def _in_a_child() -> None:
    torch.set_num_threads(2)
    done: list[int] = []
    share_out(done.append, range(4), CPU)
    os._exit(0 if sorted(done) == [0, 1, 2, 3] else 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("three_threads")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    share_out(lambda piece: None, range(5), CPU)
    child = os.fork()
    if child == 0:
        _in_a_child()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("three_threads")
def test_two_callers_at_once_do_all_their_pieces() -> None:
    done: list[int] = []
    callers = [
        threading.Thread(target=lambda start=start: share_out(done.append, range(start, start + 500), CPU))
        for start in (0, 500, 1000)
    ]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert sorted(done) == list(range(1500))


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
    monkeypatch.setattr("cagp.solvers.local_kriging._BATCH_BYTES", {"cpu": 8 * 6 * 6 * 4})  # four to a batch
    monkeypatch.setattr("cagp.solvers.nearest_neighbours._BATCHES_AT_ONCE", {"cpu": 5})
    problem = make_problem(d=60, T=47)
    solver = cagp.NearestNeighbours(6, shared=False)
    post = problem.prior.condition(problem.X, problem.y, solver).predict(problem.X_test)
    for t, x in enumerate(problem.X_test):
        near = np.argsort(((problem.X - x) ** 2).sum(axis=1))[:6]
        v = problem.V[t, near]
        w = np.linalg.solve(problem.G[np.ix_(near, near)], v)
        assert_allclose(post.mean[t], w @ problem.y[near], rtol=1e-9, atol=1e-12)
        assert_allclose(post.variance[t], problem.K[t, t] - w @ v, rtol=1e-9)
