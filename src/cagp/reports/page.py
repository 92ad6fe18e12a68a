"""What every HTML page of cagp shares: style, frame, tables, pictures inside the page, and the folder it lies in."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..support.atomic_files import write_atomically

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito's palette, which the colour-blind can tell apart

_UNPRINTABLE = (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
# Control characters, marks that turn the direction of a text, and half characters, each by what is shown for it.
_PRINTABLE: dict[int, str] = dict.fromkeys(_UNPRINTABLE, "\N{REPLACEMENT CHARACTER}") | {9: " ", 10: "\n", 13: ""}


def printable(text: Any) -> Any:
    """A text from files or users without characters that a page must not have; anything else as it is."""
    return text.translate(_PRINTABLE) if type(text) is str else text


def require_libraries() -> None:
    """Name the extra that brings what pages are made with, before any work is done."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f'pages need {error.name}: pip install "cagp[report]"') from error


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(__package__)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=printable)


def render(template: str, values: dict[str, Any]) -> str:
    """A jinja2 ``template`` with ``values``; it may extend and import those in the folder ``templates``."""
    return _environment().from_string(template).render(values)


def page(file: str, values: dict[str, Any]) -> str:
    """The page made of the template called ``file`` with ``values``."""
    return _environment().get_template(file).render(values)


def new_figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    """A figure of ``rows`` × ``columns`` panels, each so many inches, and its axes as an array of that shape."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.08)  # labels must not touch the titles of the next row
    figure = Figure(figsize=(columns * width, rows * height), layout=layout)
    return figure, figure.subplots(rows, columns, squeeze=False)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, the same bytes every time."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def inline(png: bytes) -> str:
    """A PNG picture as the source of an image, so that the page needs no file beside it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


@dataclass(frozen=True)
class PageTable:
    """``rows`` of texts under ``columns``; ``headed`` where the first cell of a row names it; ``name`` is its id."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    headed: bool = True


class Folder:
    """Collects what belongs to a page in ``path``: pictures, each also a PNG file beside it, and further pages."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"folder must be a folder, {self.path} is a file; give another name")
        self._beside: dict[str, bytes] = {}

    def picture(self, name: str, png: bytes, caption: str) -> dict[str, str]:
        """A picture for the template: its source and caption."""
        self._beside[f"{name}.png"] = png
        return {"source": inline(png), "caption": caption}

    def page(self, file: str, content: str) -> str:
        """A further page beside this one; returns the name of its file, for a link."""
        self._beside[file] = content.encode()
        return file

    def write(self, file: str, values: dict[str, Any]) -> Path:
        """Write the page as ``file``, from the template of that name, and what lies beside it."""
        content = page(file, values)
        for name, beside in self._beside.items():
            write_atomically(self.path / name, beside)
        write_atomically(self.path / file, content.encode())
        return self.path / file
