"""Who does the work on shards: this process, the workers of a Dask client that is there, or those of a local cluster.

A task is a function of small arguments that writes what is large to a file of its own, whole or not at all, so that it
may be killed and done again: a worker that dies is replaced, and what it did is done by another.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import psutil
import torch

from ..errors import InputError, MemoryBudgetError
from ..support.advice import optional
from ..support.interrupt import Interrupt
from ..support.memory import available_bytes
from ..support.progress import progress as progress_bar
from ..support.progress import say
from ..support.threads import threads_allowed
from ..support.validation import count

_RETRIES = 2  # of a task that fails for reasons of the machine, such as a file system that is away
_DEATHS = 10  # of workers, from which a task may be the one that ends them
_ENDINGS, _MOMENT = 100, 0.05  # so often, with so many seconds between, a worker is ended that is dying by itself
_BEGINNING = 300  # seconds in which a worker has begun, or ends: who has started it may have been killed meanwhile
_SHARE = 0.5  # of the free memory that the workers of a local cluster may have together


@dataclass(frozen=True)
class Workers:
    """The workers of a Dask client, which ``find`` gives, or this process where that is None.

    Progress is shown as ``progress`` says.
    """

    find: Callable[[], Any] | None = None
    progress: bool | None = None

    def all_of(
        self, task: Callable[..., Any], calls: Sequence[Sequence[Any]], what: str, done: int = 0, pieces: str = "files"
    ) -> list[Any]:
        """``task(*call)`` for every call, in their order. Ctrl-C ends it with ``KeyboardInterrupt``.

        So many other ``pieces`` were ``done`` before, which is told, and counted as progress.
        """
        total = done + len(calls)
        if done:
            part = f"{done} of {total} {pieces} were done; going on"
            self.tell(part if calls else f"all {total} {pieces} were there")
        found: list[Any] = [None] * len(calls)
        if not calls:
            return found
        with Interrupt() as interrupt, progress_bar(what, total, self.progress) as advance:
            if done:
                advance(done)
            # one task alone is not worth a cluster
            each = self._here if self.find is None or len(calls) < 2 else self._there
            for number, result in each(task, calls, interrupt):
                found[number] = result
                advance(1)
                if interrupt.requested:
                    raise KeyboardInterrupt
        return found

    def tell(self, text: str) -> None:
        """Say something where progress is shown."""
        if self.progress is not False:
            say(text)

    @staticmethod
    def _here(
        task: Callable[..., Any], calls: Sequence[Sequence[Any]], interrupt: Interrupt
    ) -> Iterator[tuple[int, Any]]:
        return ((number, task(*call)) for number, call in enumerate(calls))

    def _there(
        self, task: Callable[..., Any], calls: Sequence[Sequence[Any]], interrupt: Interrupt
    ) -> Iterator[tuple[int, Any]]:
        from distributed import KilledWorker, as_completed

        assert self.find is not None
        client = self.find()
        sent = [client.submit(task, *call, pure=False, retries=_RETRIES) for call in calls]
        number = {future.key: i for i, future in enumerate(sent)}
        try:
            with interrupt.waiting():
                for future in as_completed(sent, loop=client.loop):
                    yield number[future.key], future.result()
                    future.release()
        except KilledWorker as error:
            raise MemoryBudgetError(
                f"workers were killed again and again, mostly because they took more than their memory_limit; give a "
                f"larger one, or fewer workers, n_jobs ({error})"
            ) from error
        finally:
            for future in sent:
                future.cancel()


@contextmanager
def workers(n_jobs: int | None, memory_limit: float | None, progress: bool | None) -> Iterator[Workers]:
    """Who is to do the work: the workers of the Dask client that is there, or a local cluster of ``n_jobs`` workers,
    by default one for each core, with ``memory_limit`` bytes each; with one it is this process, which has no limit.
    """
    client = _client_that_is_there() if n_jobs is None else None
    number = threads_allowed() if n_jobs is None else count(n_jobs, "n_jobs", minimum=1)
    if client is not None and memory_limit is not None:
        raise InputError(
            f"memory_limit={memory_limit:g} is for workers of a local cluster; those of the Dask client that is there "
            "have limits of their own: give it where they are started, or n_jobs for a cluster beside them"
        )
    with ExitStack() as stack:

        @cache
        def find() -> Any:
            if client is not None:
                return client
            distributed = optional("distributed", "data in shards on several workers", "cluster")
            limit = memory_limit or _SHARE * available_bytes(torch.device("cpu")) / number
            cluster = stack.enter_context(_local_cluster(number, int(limit)))
            own = stack.enter_context(distributed.Client(cluster, set_as_default=False))
            own.wait_for_workers(number)
            own.run(int, nanny=True)  # a keeper that has not begun dies with its worker, and nobody starts another one
            return own

        yield Workers(None if client is None and number == 1 else find, progress)


def _client_that_is_there() -> Any:
    """That of joblib's backend, or else of Dask; who has not imported these has none."""
    if "joblib.parallel" in sys.modules:
        backend, _ = sys.modules["joblib.parallel"].get_active_backend()
        if getattr(backend, "client", None) is not None:
            return backend.client
    with suppress(KeyError, ValueError):
        return sys.modules["distributed"].Client.current()


def _local_cluster(number: int, limit: int) -> Any:
    """So many processes with one thread each; one that takes more memory than the limit is started again."""
    from distributed import LocalCluster, Scheduler, SpecCluster

    if sys.platform == "win32":
        return LocalCluster(number, threads_per_worker=1, memory_limit=limit, dashboard_address="127.0.0.1:0")
    # by a command of their own, so that they do not read the script again that has started them
    from distributed.deploy.subprocess import SubprocessWorker

    class Keeper(SubprocessWorker):  # type: ignore[misc]
        async def close(self) -> None:
            for _ in range(_ENDINGS):  # what ends by itself while it is being ended is an error of psutil
                with suppress(psutil.NoSuchProcess):
                    return await super().close()
                await asyncio.sleep(_MOMENT)

    own = {"nthreads": 1, "memory_limit": limit, "host": "127.0.0.1", "silence_logs": logging.ERROR}
    own |= {"death_timeout": _BEGINNING}
    worker = {"cls": Keeper, "options": {"worker_class": "distributed.Nanny", "worker_kwargs": own}}
    about = {"host": "127.0.0.1", "port": 0, "allowed_failures": _DEATHS}
    about |= {"dashboard": False, "dashboard_address": "127.0.0.1:0"}  # no port that another cluster may have
    scheduler = {"cls": Scheduler, "options": about}
    return SpecCluster(dict.fromkeys(range(number), worker), scheduler, worker, silence_logs=logging.ERROR)
