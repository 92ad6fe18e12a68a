"""How much memory there is, and a clear refusal before too much of it is asked for."""

from __future__ import annotations

import numbers
import os
from pathlib import Path

import torch

from ..errors import InputError, MemoryBudgetError


def available_bytes(device: torch.device) -> int:
    """Memory that is free on ``device`` right now, in bytes."""
    if device.type == "cuda":
        # what torch keeps for itself but does not use counts as free
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    try:
        with open("/proc/meminfo") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
        return min(free, _container_bytes())
    except (OSError, StopIteration):
        pass  # not Linux: fall back on the physical size
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _container_bytes() -> int:
    """What the container's own limit leaves, where there is one."""
    try:
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text().strip() for name in ("max", "current"))
        return max(0, int(limit) - int(used)) if limit != "max" else 2**62
    except (OSError, ValueError):
        return 2**62


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
    size = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def require(n_bytes: float, budget: int, what: str, remedy: str) -> None:
    """Refuse work that needs more than the budget, saying what needs how much."""
    if n_bytes > budget:
        raise MemoryBudgetError(f"{what} needs {human(n_bytes)}, the memory budget is {human(budget)}; {remedy}")
