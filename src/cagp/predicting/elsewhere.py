"""Who solves the batches of a prediction when it is not this process alone: joblib's workers, or several devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from ..workers.devices import Devices, named, require_device
from ..workers.joblib_pool import Pool, find_pool
from ..workers.parcel import Parcel, received
from .batches import Batch, Batches
from .conditioned import Conditioned
from .solved import Solved


@dataclass(frozen=True)
class Workers:
    """The workers of ``pool``, each with the model on its own ``device``; that of the model if None."""

    pool: Pool
    device: str | None = None

    @property
    def count(self) -> int:
        return self.pool.count

    def __str__(self) -> str:
        return f"{self.count} workers"

    def results(
        self, model: Conditioned, batches: Sequence[Batch], interrupt: Interrupt, advance: Advance
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the result of every batch, in the order in which they finish; fewer after Ctrl-C."""
        sent = model.to_send(self.pool, self.device)
        calls = ((sent, number, batch) for number, batch in enumerate(batches))
        for number, found in self.pool.results(_solve, calls, interrupt):
            advance(len(found["mean"]))
            yield number, found


def _solve(sent: Conditioned | Parcel[Conditioned], number: int, batch: Batch) -> tuple[int, dict[str, Any]]:
    """The work of one worker. Ctrl-C in a terminal reaches its processes too, and must not be an error there."""
    with Interrupt() as interrupt:
        return number, batch.solve(received(sent), interrupt, lambda steps: None)


def find_workers(n_jobs: int | None, devices: str | Sequence[str] | None) -> Workers | Devices | None:
    """Who is to do the work; None for this process as it is."""
    pool = find_pool(n_jobs)
    if devices is None:
        return None if pool is None else Workers(pool)
    if pool is None:
        names = named(devices)
        for name in names:
            require_device(name)
        return Devices(names)
    if devices == "all" or len(named(devices)) > 1:
        raise InputError(
            f"devices={devices!r} for the workers of joblib, which have one each: start one worker per device, with "
            'CUDA_VISIBLE_DEVICES set to it, and give devices="cuda"; or n_jobs=1 for the devices of this machine'
        )
    return Workers(pool, named(devices)[0])


def solve_with(
    workers: Workers | Devices, work: Batches, asked: bool, interrupt: Interrupt, advance: Advance
) -> tuple[list[Solved], str]:
    """The batches of ``work``, and who solved them, in words. ``asked``: the user has chosen their size."""
    cut = work.cut_for(workers.count, asked)
    found = dict(workers.results(work.model, [batch for _, batch in cut], interrupt, advance))
    return work.join(cut, found), f" In {len(cut)} batches on {workers}."
