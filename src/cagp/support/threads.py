"""Python threads that share out independent pieces of work, each with single-threaded torch.

Many small factorisations run one after another inside torch, on one core; handed to several threads they use all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_helpers: dict[int, ThreadPoolExecutor] = {}
"""Threads that wait for work, by their number: starting them takes longer than many a piece."""

_starting = threading.Lock()


def _forget() -> None:
    """In a forked process: its threads are not there, and nobody would open a lock that was closed."""
    global _starting
    _starting = threading.Lock()
    _helpers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def on_one_thread(call: Callable[[], Result], device: torch.device) -> Result:
    """What ``call`` returns, with single-threaded torch on a CPU: for so little work that threads only wait."""
    threads = torch.get_num_threads()
    if threads == 1 or device.type != "cpu":
        return call()
    with _single_threaded(threads):
        return call()


def share_out(work: Callable[[Piece], object], pieces: Iterable[Piece], device: torch.device) -> None:
    """Call ``work`` on every piece, on as many threads as torch has; an error in one is raised here.

    One after another where the work is on a GPU, which is one queue anyhow.
    """
    todo, threads = list(pieces), torch.get_num_threads()
    n = min(threads, len(todo)) if device.type == "cpu" else 1
    if n <= 1:
        for piece in todo:
            work(piece)
        return
    rest, taking = iter(todo), threading.Lock()

    def take() -> Iterator[Piece]:
        """Pieces that nobody has taken yet, one at a time."""
        while True:
            with taking:
                try:
                    piece = next(rest)
                except StopIteration:
                    return
            yield piece

    def some() -> None:
        try:
            for piece in take():
                work(piece)
        except BaseException:
            with taking:
                list(rest)  # nobody begins another piece
            raise

    with _single_threaded(threads):
        pool = _pool(threads - 1)
        helping = [pool.submit(some) for _ in range(n - 1)]
        try:
            some()
        finally:
            _wait_for(helping)
        for future in helping:
            if not future.cancelled():
                future.result()


@contextmanager
def _single_threaded(threads: int) -> Iterator[None]:
    """Torch with one thread here, and afterwards as many as before; what new threads start with changes likewise."""
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _pool(n: int) -> ThreadPoolExecutor:
    """``n`` threads that help."""
    with _starting:
        if n not in _helpers:
            _helpers.clear()  # threads end when nobody can give them work any more
            pool, begun = ThreadPoolExecutor(n, "cagp", torch.set_num_threads, (1,)), threading.Barrier(n + 1)
            try:
                for _ in range(n):
                    pool.submit(begun.wait)
                begun.wait()  # one that began later would change what new threads start with
            except BaseException:
                begun.abort()  # those that have begun would wait for ever, and so would the end of the process
                raise
            _helpers[n] = pool
        return _helpers[n]


def _wait_for(helping: list[Future[None]]) -> None:
    """Wait until all that have begun have ended; the others, which found nothing to do in time, never begin."""
    for future in helping:
        if not future.cancel():
            future.exception()
