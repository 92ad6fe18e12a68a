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


@dataclass(frozen=True, eq=False)
class Parcel(Generic[T]):
    """A function without arguments, pickled; ``open`` calls it where there is no result of the same recipe yet.

    ``content`` is an array of bytes because joblib sends arrays well: once to a machine, not once per task.
    """

    token: str
    content: np.ndarray

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
        return _last.get(self.token, lambda: pickle.loads(self.content.data)())


def received(sent: T | Parcel[T]) -> T:
    """What was sent: itself, or made from its recipe if this process does not have it yet."""
    return sent.open() if isinstance(sent, Parcel) else sent


class _Last:
    """The last result alone: each may fill the memory budget, so the one before is let go first. Other threads wait."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._token, self._made = "", None

    def get(self, token: str, make: Callable[[], Any]) -> Any:
        with self._lock:
            if token != self._token:
                self._token, self._made = "", None
                self._made, self._token = make(), token
            return self._made


_last = _Last()
