"""Small files that are either whole or not there."""

from __future__ import annotations

from pathlib import Path

from ..support.atomic_files import whole_file


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to a temporary file beside ``path`` and rename it: an interruption leaves no half file."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
