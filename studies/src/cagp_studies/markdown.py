"""Parts of Markdown pages that are made from what studies found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *rows))


def between_marks(text: str, parts: Mapping[str, str]) -> str:
    """The page with each of the ``parts`` written anew, between <!-- name --> and <!-- /name -->."""
    for name, content in parts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, rest = text.split(start)
        _, after = rest.split(end)
        text = f"{before}{start}{content}\n{end}{after}"
    return text
