"""Workers of joblib, here or in a cluster, and what is sent to them: recipes of what they make once and keep."""

from __future__ import annotations

import hashlib
import numbers
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ..errors import InputError
from ..support.advice import optional
from ..support.interrupt import Interrupt

T = TypeVar("T")

_last: dict[str, Any] = {}  # the last result alone, by the token of its parcel
_lock = threading.RLock()


@dataclass(frozen=True, eq=False)
class Parcel(Generic[T]):
    """A function without arguments, pickled; ``open`` calls it where there is no result of the same recipe yet."""

    token: str
    content: np.ndarray  # bytes: joblib sends arrays well, once to a machine, not once per task

    @classmethod
    def of(cls, make: Callable[[], T]) -> Parcel[T]:
        """``make`` may hold what pickle alone cannot send: functions without a name, classes of a notebook."""
        try:
            import cloudpickle  # type: ignore[import-untyped]
        except ImportError:
            from joblib.externals import cloudpickle  # older versions of joblib bring it along
        content = np.frombuffer(cloudpickle.dumps(make, protocol=pickle.HIGHEST_PROTOCOL), dtype=np.uint8)
        return cls(hashlib.blake2b(content.data, digest_size=16).hexdigest(), content)

    def __sizeof__(self) -> int:
        """What it takes to send: joblib's Dask backend goes by it and sends large arguments apart from the task."""
        return 1024 + self.content.nbytes

    def open(self) -> T:
        """What the recipe makes; the same object as long as no other parcel is opened in this process."""
        with _lock:
            if self.token not in _last:
                _last.clear()  # each may fill the memory budget: the one before is let go first
                _last[self.token] = pickle.loads(self.content.data)()
            return _last[self.token]


def received(sent: T | Parcel[T]) -> T:
    """What was sent: itself, or made from its recipe if this process does not have it yet."""
    return sent.open() if isinstance(sent, Parcel) else sent


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
