"""Files that are either whole or not there, and folders with one writer at a time."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from .progress import say

_NOTHING = ", so that nothing was written"
_MARGIN = 2**16  # bytes of a file that are not numbers


@contextmanager
def named_as(path: Path) -> Iterator[None]:
    """Failures to write a temporary file name the ``path`` that a user knows, and say that nothing was written."""
    try:
        yield
    except OSError as error:
        why = (error.strerror or str(error)).removesuffix(_NOTHING)  # said once, of a file in a folder in a folder
        if error.errno and (system := os.strerror(error.errno)) in why:  # and not what a library says around it
            why = system
        raise OSError(error.errno or errno.EIO, f"{why}{_NOTHING}", str(path)) from error


@contextmanager
def one_writer(folder: Path, waiting: str = "") -> Iterator[bool]:
    """One process at a time writes to a folder, where the system locks folders, which is told; a kill lets go.

    ``waiting`` is said where another process has to be waited for.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    with ExitStack() as stack:
        alone = False
        with suppress(OSError):  # a file system without locks, a folder that is gone
            stack.callback(os.close, handle := os.open(folder, os.O_RDONLY))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting:
                    say(waiting)
                fcntl.flock(handle, fcntl.LOCK_EX)
            alone = True
        yield alone


@contextmanager
def begun(folder: Path) -> Iterator[None]:
    """A folder that long work fills, one process at a time: who comes later waits, and finds what is done."""
    with named_as(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with one_writer(folder, f"waiting for another process, which writes to {folder}"):
        yield


def require_disk(path: Path, size: int) -> None:
    """Refuse what a disk has no room for, of so many bytes: of HDF5 and GDAL one does not learn it in time."""
    if shutil.disk_usage(path.parent).free < size + _MARGIN:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def remove_partial(folder: Path) -> None:
    """Remove what processes that were killed have left in a folder; nobody may be writing there."""
    with suppress(FileNotFoundError):  # of the folder itself, while it is looked through
        for path in folder.glob(".partial-*"):
            remove(path)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; what another process removes first is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def fill_folder(place: Path, fill: Callable[[Path], None]) -> Path:
    """A new folder is there once ``fill`` has written all of it; one that is there is filled as it is."""
    with named_as(place):
        if place.exists():
            fill(place)
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".partial-{uuid4().hex}-{place.name}")
        try:
            temporary.mkdir()
            fill(temporary)
            try:
                os.rename(temporary, place)
            except OSError:
                if not place.exists():
                    raise
                fill(place)  # another process was quicker
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return place


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary name beside ``path``, with its ending, and renames it at the end: no half file is seen."""
    temporary = path.with_name(f".partial-{uuid4().hex}-{path.name}")
    with named_as(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``: an interruption leaves no half file."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
