"""A report on disk: the page and its pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..support.atomic_files import write_atomically
from .page import inline, render


class Folder:
    """Collects pictures for a page in ``path``; each is also written as a PNG file beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"folder must be a folder, {self.path} is a file; give another name")
        self._pictures: dict[str, bytes] = {}

    def picture(self, name: str, png: bytes, caption: str) -> dict[str, str]:
        """A picture for the template: its source and caption."""
        self._pictures[f"{name}.png"] = png
        return {"source": inline(png), "caption": caption}

    def write(self, file: str, template: str, values: dict[str, Any]) -> Path:
        """Write the page as ``file``, and the pictures."""
        page = render(template, values)
        for name, content in self._pictures.items():
            write_atomically(self.path / name, content)
        write_atomically(self.path / file, page.encode())
        return self.path / file
