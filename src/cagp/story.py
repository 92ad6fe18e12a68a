"""How a model came about: what was tried, what was chosen and why."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from dataclasses import dataclass
from typing import Any

from .errors import InputError
from .support.validation import count

_WIDTH = 80  # of a terminal


@dataclass(frozen=True)
class Tried:
    """One candidate, with its average scores on left-out observations; ``weight`` is its share in the model."""

    name: str
    crps: float
    log_score: float
    seconds: float
    weight: float


@dataclass(frozen=True)
class Story:
    """What was tried, chosen and found, as ``text`` and as a table of ``candidates``.

    Each section of the text begins with its title and ends with an empty line; lines are sentences, or a table, which
    begin with blanks. Printed, they are wrapped. ``interrupted``: Ctrl-C ended it, the best so far was kept. ``added``
    observations came to the model later.
    """

    text: str
    candidates: tuple[Tried, ...]
    interrupted: bool = False
    added: int = 0

    @property
    def sections(self) -> list[tuple[str, list[str]]]:
        """The title and the lines of each section, and what has happened since; a story of old has no titles."""
        blocks = [block.splitlines() for block in self.text.split("\n\n")]
        found = [(title, lines) for title, *lines in blocks] if len(blocks) > 1 else [("", blocks[0])]
        if self.added:
            since = "The hyperparameters, the choice among candidates and what was found about the error bars are from "
            found.append(("Since then", [f"Observations added since: {self.added:,}. {since}before."]))
        return found

    def __str__(self) -> str:
        """The whole story in lines of at most 80 characters, but for its table."""
        return "\n\n".join("\n".join([*_heading(title), *map(_wrapped, lines)]) for title, lines in self.sections)

    @property
    def in_words(self) -> str:
        return f"chosen from {len(self.candidates)} candidates"

    def telling(self, title: str, sentence: str) -> Story:
        """The story with a further section."""
        before = self.text if "\n\n" in self.text else f"What was chosen\n{self.text}"  # one of old has no titles
        return dataclasses.replace(self, text=f"{before}\n\n{title}\n{sentence}")

    def after(self, added: int) -> Story:
        """The story of the model when so many observations were added to it."""
        return dataclasses.replace(self, added=self.added + added)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values. Scores that are no numbers, because there was nothing to leave out, are null."""
        content = dataclasses.asdict(self)
        for each in content["candidates"]:
            each.update({name: None for name in ("crps", "log_score") if not math.isfinite(each[name])})
        if not self.added:  # so that older cagp reads what it can read
            del content["added"]
        return content

    @classmethod
    def from_json(cls, content: Any) -> Story:
        """The same, from what ``to_json`` gave; nothing is taken on trust."""
        wanted = {"text", "candidates", "interrupted"}
        if not isinstance(content, dict) or set(content) - {"added", "held"} != wanted:
            raise InputError("the story must have exactly the entries text, candidates and interrupted")
        candidates = []
        for each in content["candidates"]:
            named: dict[str, Any] = {name: math.nan if value is None else value for name, value in each.items()}
            named.pop("fitted_by", None)  # of older models
            candidates.append(Tried(**named))
        added = count(content.get("added", 0), "added")
        return cls(str(content["text"]), tuple(candidates), bool(content["interrupted"]), added)


def table_of(candidates: tuple[Tried, ...]) -> str:
    """The candidates as a table of text, the best first."""
    rows = [("candidate", "CRPS", "log score", "seconds", "weight")]
    for each in sorted(candidates, key=lambda tried: tried.crps):
        weight = f"{each.weight:.2f}" if each.weight else ""
        rows.append((each.name, f"{each.crps:.4g}", f"{each.log_score:.4g}", f"{each.seconds:.1f}", weight))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    layout = "  " + "  ".join(f"{{:{'>' if i else '<'}{width}}}" for i, width in enumerate(widths))
    return "\n".join(layout.format(*row).rstrip() for row in rows)


def _heading(title: str) -> list[str]:
    return [title, "-" * len(title)] if title else []


def _wrapped(line: str) -> str:
    """A sentence in lines that are not too long, the first one ahead; a line of a table as it is."""
    if line.startswith("  "):
        return line
    return textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
