"""Run the Python of pages and write what it prints into them: ``CAGP_DATA=... python docs/run_pages.py [PAGE ...]``.

The ``python`` blocks of a page are one program. A block of kind ``output`` that follows one holds what that block
printed. Programs run in a folder of their own that has what they read; their figures then go to ``docs/figures``.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_CODE = re.compile(r"```python\n(?P<code>.*?)```(?P<gap>\n\n```output\n(?P<printed>.*?)```)?", flags=re.DOTALL)


def lay_out(folder: Path) -> None:
    """Put into a folder what pages read: they are written for the root of a clone."""
    (folder / "docs").mkdir()
    shutil.copy(HERE / "temperatures.csv", folder / "docs")


def run(text: str, name: str) -> list[tuple[str | None, str]]:
    """For each block of the page: what it says that it prints, None where it says nothing, and what it prints."""
    names: dict[str, object] = {"__name__": name}
    found = []
    for block in _CODE.finditer(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], name, "exec"), names)
        found.append((block["printed"], printed.getvalue()))
    return found


def refreshed(text: str, name: str) -> str:
    """The page with what its program printed in the place of what it said."""
    results = iter(run(text, name))

    def write(block: re.Match[str]) -> str:
        _, printed = next(results)
        return block[0] if block["printed"] is None else f"```python\n{block['code']}```\n\n```output\n{printed}```"

    return _CODE.sub(write, text)


def main() -> None:
    pages = [Path(page).resolve() for page in sys.argv[1:]] or sorted(HERE.glob("*.md"))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if "```output\n" not in text:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            lay_out(Path(folder))
            page.write_text(refreshed(text, page.name), encoding="utf-8")
            for figure in Path(folder).glob("*.png"):
                shutil.move(figure, HERE / "figures" / figure.name)
        print(f"ran {page.name}")


if __name__ == "__main__":
    main()
