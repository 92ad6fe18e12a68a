"""Ctrl-C, or time that is up, as a request to stop after the iteration in hand: what was computed is kept."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from . import clock

TIME_IS_UP = "time is up"


class _Here(threading.local):
    """The moment when the work that this thread does has to end."""

    end = math.inf


_here = _Here()


@contextmanager
def ending_at(moment: float) -> Iterator[None]:
    """Inside, whoever asks whether to stop is told so from this ``moment`` of ``clock.now`` on."""
    before, _here.end = _here.end, min(_here.end, moment)
    try:
        yield
    finally:
        _here.end = before


class Interrupt:
    """While active, in the main thread, the first Ctrl-C sets ``requested``, here and in those around; a second sets
    ``insisted`` and interrupts at once, as usual. Time that is up, see ``ending_at``, is a request, too. What
    ``joins`` those around is requested from its beginning where they were before.
    """

    def __init__(self, joins: bool = False) -> None:
        self._joins = joins
        self._asked = self.insisted = self._waiting = self._listening = False
        self._previous: object = None

    @property
    def requested(self) -> bool:
        """Whether to stop after the iteration in hand."""
        return self._asked or clock.now() > _here.end

    @requested.setter
    def requested(self, asked: bool) -> None:
        self._asked = asked

    @property
    def reason(self) -> str:
        """Why to stop, where that is requested."""
        return "interrupted" if self._asked else TIME_IS_UP

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.insisted = self._asked
        self._asked = True
        outer = getattr(self._previous, "__self__", None)
        while isinstance(outer, Interrupt):
            outer.requested = True
            outer = getattr(outer._previous, "__self__", None)
        if self.insisted or self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While this process only waits for others, the first Ctrl-C interrupts at once too."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def __enter__(self) -> Interrupt:
        self._listening = threading.current_thread() is threading.main_thread()
        if self._listening:
            self._previous = signal.signal(signal.SIGINT, self._handle)
            outer = getattr(self._previous, "__self__", None)
            self._asked |= self._joins and isinstance(outer, Interrupt) and outer._asked
        return self

    def __exit__(self, *error: object) -> None:
        if self._listening:
            signal.signal(signal.SIGINT, self._previous)  # type: ignore[arg-type]
