"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary name beside ``path`` to write to, and renames it at the end: no half file is ever seen.

    The temporary name ends like ``path``, for libraries that go by the ending.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".partial-{uuid4().hex}-{path.name}")
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
