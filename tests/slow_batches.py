"""Solvers for tests that look at how batches are solved, wherever that is: they leave traces in a folder."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import cagp
from cagp.gram import Gram
from cagp.support.interrupt import Interrupt
from problems import make_problem


@dataclass(frozen=True, repr=False)
class Counted(cagp.GaussSeidel):
    """Notes in ``folder`` each time that it is prepared."""

    folder: str = ""

    def prepare(self, gram: Gram) -> object:
        (Path(self.folder) / f"{os.getpid()}-{time.time_ns()}").touch()
        return super().prepare(gram)


@dataclass(frozen=True, repr=False)
class Stuck(cagp.GaussSeidel):
    """Hangs before iteration 1 on a batch of one test point, until the file ``released`` is in ``folder``."""

    folder: str = ""

    def prepare(self, gram: Gram) -> object:
        prepared = super().prepare(gram)
        original, folder = prepared.weights, Path(self.folder)

        def weights(cross: object) -> Iterator[object]:
            for iterate in original(cross):
                yield iterate
                if cross.size == 1 and iterate.iteration == 0:
                    (folder / "stuck").touch()
                    until(lambda: (folder / "released").exists())

        prepared.weights = weights
        return prepared


@dataclass(frozen=True, repr=False)
class Failing(cagp.GaussSeidel):
    """Refuses every batch."""

    def prepare(self, gram: Gram) -> object:
        prepared = super().prepare(gram)

        def weights(cross: object) -> Iterator[object]:
            raise cagp.NotPositiveDefiniteError("this batch has no solution")
            yield

        prepared.weights = weights
        return prepared


def check_ctrl_c(folder: Path, monkeypatch: pytest.MonkeyPatch, last: int = 0, **options: object) -> None:
    """Ctrl-C after six of seven test points, while that of the last one hangs, which then has ``last`` iterations."""
    problem, solved, listening = make_problem(), [], []
    enter = Interrupt.__enter__
    monkeypatch.setattr(Interrupt, "__enter__", lambda self: listening.append(self) or enter(self))
    monkeypatch.setattr("cagp.model.progress_bar", lambda *_: nullcontext(solved.append))
    model = problem.prior.condition(problem.X, problem.y, Stuck(2, folder=str(folder)))

    pressing = when(
        lambda: sum(solved) >= 6 and (folder / "stuck").exists(), lambda: os.kill(os.getpid(), signal.SIGINT)
    )
    releasing = when(lambda: any(each.requested for each in listening), (folder / "released").touch)  # it was heard
    post = model.predict(problem.X_test, batch_size=3, **options)
    pressing.join()
    releasing.join()
    assert post.status.reason == "interrupted"
    assert f"6 test points after iteration 2, 1 test points after iteration {last}" in str(post.status)
    assert post.iterations.tolist() == [2] * 6 + [last]
    whole = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(2)).predict(problem.X_test, n_jobs=1)
    np.testing.assert_allclose(post.mean[:6], whole.mean[:6], rtol=1e-12)
    np.testing.assert_allclose(post.variance[:6], whole.variance[:6], rtol=1e-12)
    if not last:  # the prior
        assert post.mean[6] == 0
        np.testing.assert_allclose(post.variance[6], 1.7)


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait for something that is sure to come; an error says that it did not."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.01)


def when(condition: Callable[[], bool], action: Callable[[], None]) -> threading.Thread:
    """Do something in another thread as soon as ``condition`` holds."""

    def wait() -> None:
        until(condition)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread
