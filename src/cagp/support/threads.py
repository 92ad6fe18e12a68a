"""How many threads work: one on what is small, and all of them, each with its own pieces, on what is many.

A second thread whose core is busy is waited for as long as a time slice of the system, some milliseconds, at every
operation, so it has to be worth that. Many small factorisations run one after another inside torch, on one core;
``share_out`` hands them to several threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_helpers: dict[int, ThreadPoolExecutor] = {}  # that wait for work: starting them takes longer than many a piece
_starting = threading.Lock()


def _forget() -> None:
    """In a forked process: its threads are not there, and nobody would open a lock that was closed."""
    global _starting
    _starting = threading.Lock()
    _blas.forked()
    _helpers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# Operations that are worth waiting for another thread dozens of times, as a factorisation does: beside a busy process
# each time may take a slice of the system's.
WORTH_THREADS = 1e10


class threads_for:
    """As many threads inside as so many ``operations`` are worth: those that the user has set, or one.

    It holds for torch in this thread, and for the BLAS of NumPy and SciPy, of which a process has one setting, unless
    another thread came first. One inside another decides for itself, by the number that held outside of all.
    """

    def __init__(self, operations: float) -> None:
        self._operations = operations

    def __enter__(self) -> None:
        self._outside, self._before = _here.allowed, torch.get_num_threads()
        allowed = self._outside or self._before
        self._inside = allowed if self._operations >= WORTH_THREADS else 1
        _here.allowed = allowed
        if allowed > 1:
            _change(self._before, self._inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _here.allowed != 1:
            _change(self._inside, self._before)
        _here.allowed = self._outside


class _Here(threading.local):
    """How many threads the user allows torch in this one, while it is inside ``threads_for`` or ``share_out``."""

    allowed: int | None = None


_here = _Here()


def threads_allowed() -> int:
    """So many threads may work on what is large here, as the user has set it; one in a piece of ``share_out``."""
    return _here.allowed or torch.get_num_threads()


def _change(before: int, after: int) -> None:
    """From ``before`` threads to ``after``, of which one or both are all that are allowed, more than one."""
    if before != after:
        torch.set_num_threads(after)
        (_blas.hold if after == 1 else _blas.release)()


class _Blas:
    """The threads of NumPy's and SciPy's BLAS, which are those of the whole process: whoever comes first holds them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._holder: int | None = None
        self._limit: Any = None

    def hold(self) -> None:
        with self.lock:
            if self._holder is None:
                self._holder, self._limit = threading.get_ident(), _libraries().limit(limits=1)
                self._limit.__enter__()

    def release(self) -> None:
        with self.lock:
            if self._holder == threading.get_ident():
                self._holder = None
                self._limit.__exit__(None, None, None)

    def forked(self) -> None:
        self.lock = threading.Lock()
        if self._holder != threading.get_ident():
            self._holder = None


@cache
def _libraries() -> ThreadpoolController:
    import_module("scipy.linalg")  # SciPy's own BLAS is found once it is loaded
    return ThreadpoolController().select(user_api="blas")


_blas = _Blas()


def on_one_thread(call: Callable[[], Result], device: torch.device) -> Result:
    """What ``call`` returns, with one thread on a CPU: for so little work that threads only wait."""
    if device.type != "cpu":
        return call()
    with threads_for(0):
        return call()


def share_out(
    work: Callable[[Piece], object], pieces: Iterable[Piece], device: torch.device, large: bool = False
) -> None:
    """Call ``work`` on every piece, on as many threads as torch has, one on a GPU; an error in one is raised here.

    ``large`` pieces are worth all threads that the user allows, even inside ``threads_for`` that has found one enough.
    """
    todo, here = deque(pieces), torch.get_num_threads()
    threads = threads_allowed() if large else here
    n = min(threads, len(todo)) if device.type == "cpu" else 1
    if n <= 1:
        for piece in todo:
            work(piece)
        return

    def some() -> None:
        """Pieces that nobody has taken yet, one at a time; after an error nobody begins another."""
        try:
            while True:
                try:
                    piece = todo.popleft()
                except IndexError:
                    return
                work(piece)
        except BaseException:
            todo.clear()
            raise

    with _single_threaded(here):
        pool = _pool(threads - 1)
        helping = [pool.submit(some) for _ in range(n - 1)]
        try:
            some()
        finally:  # wait for all that have begun; the others, which found nothing to do in time, never begin
            begun = [future for future in helping if not future.cancel()]
            wait(begun)
        for future in begun:
            future.result()


@contextmanager
def _single_threaded(threads: int) -> Iterator[None]:
    """One thread of torch and BLAS here, and afterwards as many as before; what is inside does not ask for more."""
    outside, _here.allowed = _here.allowed, 1
    _change(threads, 1)
    try:
        yield
    finally:
        _change(1, threads)
        _here.allowed = outside


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
