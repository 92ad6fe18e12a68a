"""Something that workers make from a recipe, once each, and keep for the next piece of work."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

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
