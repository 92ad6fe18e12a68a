"""How much memory there is, a clear refusal before too much of it is asked for, and scratch memory that is reused."""

from __future__ import annotations

import numbers
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

import psutil
import torch

from ..errors import InputError, MemoryBudgetError

_CONTROL_GROUP = Path("/sys/fs/cgroup")  # where Linux tells a container what it may use
# files with the limit, with what is used and which of that is cached, and how its names start, in both versions
_CONTAINERS = (
    ("memory.max", "memory.current", "memory.stat", ""),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
)


def available_bytes(device: torch.device) -> int:
    """Memory that is free on ``device`` right now, in bytes."""
    if device.type == "cuda":
        # what torch keeps for itself but does not use counts as free
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return min([int(psutil.virtual_memory().available), *_left_by_containers()])


def _left_by_containers() -> list[int]:
    """What the container's own limit leaves, where there is one; cached files make room for whoever needs it."""
    found = []
    for limit, used, stat, prefix in _CONTAINERS:
        try:
            most, now = (int((_CONTROL_GROUP / name).read_text(encoding="ascii")) for name in (limit, used))
            counts = dict(line.split() for line in (_CONTROL_GROUP / stat).read_text(encoding="ascii").splitlines())
            cached = sum(int(counts.get(f"{prefix}{name}_file", 0)) for name in ("active", "inactive"))
            found.append(max(0, most - now + cached))
        except (OSError, ValueError):  # no container, no limit ("max"), or another system
            continue
    return found


def resolve_budget(budget: float | None, device: torch.device) -> int:
    """The memory budget in bytes: what was asked for, or half of what is free."""
    if budget is None:
        return available_bytes(device) // 2
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or not budget > 0:
        raise InputError(
            f"memory_budget must be a positive number of bytes, got {budget!r}; "
            "for 4 GiB write 4 * 2**30, or leave it out to use half of the free memory"
        )
    return int(min(budget, 2**62))


def human(n_bytes: float) -> str:
    """``n_bytes`` as a person would say it: '1.5 GiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.{3 if n_bytes < 1000 else 4}g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.4g} TiB"


def require(n_bytes: float, budget: int, what: str, remedy: str) -> None:
    """Refuse work that needs more than the budget, saying what needs how much."""
    if n_bytes > budget:
        raise MemoryBudgetError(f"{what} needs {human(n_bytes)}, the memory budget is {human(budget)}; {remedy}")


class Buffers:
    """A stack of scratch tensors, one for each thread: nested borrows get different memory, kept for the next time.

    Fresh buffers cost several times the arithmetic in page faults.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device, self._own = dtype, device, threading.local()

    def __reduce__(self) -> tuple[type[Buffers], tuple[torch.dtype, torch.device]]:
        return Buffers, (self._dtype, self._device)

    @contextmanager
    def borrow(self, shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
        """Lend an uninitialised tensor of ``shape`` until the end of the block."""
        own = self._own.__dict__
        stack: list[torch.Tensor] = own.setdefault("stack", [])
        size, level = prod(shape), own.setdefault("lent", 0)
        if level == len(stack):
            stack.append(torch.empty(0, dtype=self._dtype, device=self._device))
        if stack[level].numel() < size:
            stack[level] = torch.empty(size, dtype=self._dtype, device=self._device)
        own["lent"] += 1
        try:
            yield stack[level][:size].view(shape)
        finally:
            own["lent"] -= 1
