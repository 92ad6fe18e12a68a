"""Why a solver stopped, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """``reason`` is one word for programs ("finished", "interrupted", "iterating"), ``message`` is for people."""

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message
