"""Several devices of this machine, each with a copy of the model and a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch

from ..errors import InputError, InputTypeError
from ..support.interrupt import Interrupt
from ..support.progress import Advance


class Copied(Protocol):
    """What can be copied to a device."""

    @property
    def device(self) -> torch.device: ...

    def copy_on(self, device: str) -> Any: ...


class Piece(Protocol):
    """A piece of work that a copy does."""

    def solve(self, model: Any, interrupt: Interrupt, advance: Advance) -> dict[str, Any]: ...


# The copies of each model, by device and number: they live as long as the model.
_copies: WeakKeyDictionary[Copied, dict[tuple[str, int], Copied]] = WeakKeyDictionary()


def named(devices: str | Sequence[str]) -> tuple[str, ...]:
    """The names of the devices asked for; "all" are the CUDA devices that this process can see."""
    if devices == "all":
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        if not names:
            raise InputError('devices="all" are the CUDA devices of this machine, and there is none; leave it out')
        return tuple(names)
    names = [devices] if isinstance(devices, str) else list(devices)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputTypeError(f'devices must be "all" or names such as ["cuda:0", "cuda:1"], got {devices!r}')
    return tuple(names)


def require_device(name: str) -> torch.device:
    """The device of that name, if there is one here; "cuda" is the current one, with its number."""
    try:
        return torch.empty(0, device=torch.device(name)).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"devices names {name!r}, which is not to be had here: {str(error).splitlines()[0]}") from None


@dataclass(frozen=True)
class Devices:
    """Copies of a model on the named devices; a name given twice has two copies."""

    names: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        return f"{self.count} devices ({', '.join(self.names)})"

    def _models(self, model: Copied) -> list[Copied]:
        """A copy for each name, made at the same time where there is none yet; the model itself is one of them."""
        devices = [require_device(name) for name in self.names]
        kept = _copies.setdefault(model, {})
        keys = [(str(device), devices[:i].count(device)) for i, device in enumerate(devices)]
        for device in {device for device in devices if device.type == "cuda"}:
            # torch loads its linear algebra for CUDA on first use, and must not do so in several threads at once
            torch.linalg.inv(torch.ones(1, 1, device=device))
        missing = [key for key in keys if key not in kept and key != (str(model.device), 0)]
        with ThreadPoolExecutor(max(1, len(missing))) as executor:
            kept.update(zip(missing, executor.map(lambda key: model.copy_on(key[0]), missing), strict=True))
        return [kept.get(key, model) for key in keys]

    def results(
        self, model: Copied, batches: Sequence[Piece], interrupt: Interrupt, advance: Advance
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the result of every batch, in the order in which they finish."""
        waiting = deque(enumerate(batches))
        finished: queue.SimpleQueue[tuple[int, dict[str, Any]] | BaseException] = queue.SimpleQueue()

        def work(copy: Copied) -> None:
            try:
                while waiting:
                    try:
                        number, batch = waiting.popleft()
                    except IndexError:  # another thread was quicker
                        return
                    finished.put((number, batch.solve(copy, interrupt, advance)))
            except BaseException as error:
                finished.put(error)

        threads = [threading.Thread(target=work, args=(copy,), daemon=True) for copy in self._models(model)]
        for thread in threads:
            thread.start()
        try:
            for _ in batches:
                found = finished.get()
                if isinstance(found, BaseException):
                    interrupt.requested = True  # the others stop after the iteration in hand
                    raise found
                yield found
        finally:
            waiting.clear()  # after an error: no further batch is begun
            if not interrupt.insisted:  # Python must not come to its end while a thread is inside torch
                for thread in threads:
                    thread.join()
