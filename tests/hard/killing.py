"""Commands in processes of their own that share what this one has imported: to be killed, or to run side by side."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet as pq

from cagp.cli import app
from cli.small import call


def as_folder(folder: Path, columns: dict[str, np.ndarray]) -> Path:
    """A table as a folder of Parquet files."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(columns["east"])), 4)):
        own = {name: column[rows] for name, column in columns.items()}
        pq.write_table(pa.table(own), folder / f"{number}.parquet", row_group_size=30)
    return folder


@dataclass(frozen=True)
class Running:
    """A command that runs in process ``pid``; what it says goes to the file ``log``."""

    pid: int
    log: Path

    def kill(self) -> None:
        """kill -9, whether it is done or not."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def wait(self) -> int:
        """Its exit code when it is done; −9 where it was killed."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


def start(log: Path, *arguments: object, before: Callable[[], object] = lambda: None) -> Running:
    """The command as a fork of this process; ``before`` is called in it first."""
    log.write_bytes(b"")  # here: one that is killed at once says nothing, not what the last one said
    pid = os.fork()
    if pid:
        return Running(pid, log)
    code = 70
    try:
        out = os.open(log, os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)  # pytest has others
        before()
        app([str(each) for each in arguments])
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    finally:
        os._exit(code)


def killed_after(seconds: float, log: Path, *arguments: object, before: Callable[[], object] = lambda: None) -> str:
    """What the command has said until it was killed, and all those have ended whom it has started."""
    running = start(log, *arguments, before=before)
    time.sleep(seconds)
    others = psutil.Process(running.pid).children(recursive=True)
    running.kill()
    assert not psutil.wait_procs(others, timeout=400)[1], "a process is left"
    return running.said


def done(*arguments: object) -> None:
    """The command in this process, which must succeed; forks of it then have what it imports."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output


def dying_at(operation: int) -> Callable[[], None]:
    """Makes a process kill itself just before its file operation of that number: a sync, a replacement, a renaming."""
    left = [operation]

    def patched(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **settings: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **settings)

        return call

    def patch() -> None:
        for name in ("fsync", "replace", "rename", "unlink", "rmdir"):
            setattr(os, name, patched(getattr(os, name)))

    return patch
