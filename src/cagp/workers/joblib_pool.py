"""The workers of joblib: processes or threads of this machine, or those of a cluster."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..support.interrupt import Interrupt
from ..support.remedies import optional


@dataclass(frozen=True)
class Pool:
    """Workers that joblib knows, ``count`` at a time."""

    count: int
    n_jobs: int | None
    shared: bool  # they are threads of this process
    elsewhere: bool  # they are not joblib's own but those of another scheduler, such as a Dask cluster

    def results(self, task: Callable[..., Any], calls: Iterable[Sequence[Any]], interrupt: Interrupt) -> Iterator[Any]:
        """``task(*call)`` for every call, in the order in which they finish. Ends early on Ctrl-C."""
        import joblib

        # the pieces are large enough by design: joblib must not put several into one
        parallel = joblib.Parallel(n_jobs=self.n_jobs, batch_size=1, return_as="generator_unordered")
        outputs = parallel(joblib.delayed(task)(*call) for call in calls)
        end = object()
        while not interrupt.requested:
            result = end
            try:
                with interrupt.waiting():
                    result = next(outputs, end)
            except KeyboardInterrupt:
                if interrupt.insisted or not interrupt.requested:
                    raise
            if result is end:
                return
            yield result
        with suppress(KeyboardInterrupt):
            outputs.throw(KeyboardInterrupt())  # joblib lets go of what is not finished


def find_pool(n_jobs: int | None) -> Pool | None:
    """The workers for ``n_jobs``, or None for this process; ``n_jobs`` None is what ``joblib.parallel_config`` says."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0):
        allowed = "a number of processes, −1 for one per core, or None to go by joblib.parallel_config"
        raise InputError(f"n_jobs must be {allowed}, got {n_jobs!r}")
    if n_jobs == 1 or (n_jobs is None and sys.modules.get("joblib") is None):  # who has not imported it says nothing
        return None
    backend, configured = optional("joblib.parallel", "n_jobs", "cluster").get_active_backend()
    asked = configured if n_jobs is None else int(n_jobs)
    count = int(backend.effective_n_jobs(asked))
    elsewhere = type(backend).__module__ != "joblib._parallel_backends"  # where its own backends are
    if count == 1 and not elsewhere:
        return None
    return Pool(count, asked, bool(getattr(backend, "supports_sharedmem", False)), elsewhere)
