"""Write docs/performance.md from benchmarks/results/*.json; no figure in it is written by hand.

Each file holds one section of the page, in this form:

    {"title": "heading of the section",
     "command": "what was run",
     "machine": "on what, with which versions",
     "tables": [{"caption": "…", "columns": ["…", …], "rows": [["…", …], …], "notes": "…"}]}

All cells are text, as they are to appear. Sections come in the order of ``FIRST``, then by file name.

    python benchmarks/performance_page.py [--results FOLDER] [--page FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIRST = (
    "cpu-gauss_seidel",
    "cpu-time_to_accuracy",
    "cpu-same_prediction",
    "cpu-growth",
    "cpu-growing",
    "cpu-latency",
    "cpu-neighbours",
    "cpu-auto",
    "cpu-likelihood",
    "cpu-sbc",
    "cpu-ten_million",
)
HEAD = """# Performance

Every number on this page was measured by a script in `benchmarks/` and put here by `benchmarks/performance_page.py`.
Contenders were timed in the same run on the same machine, so ratios mean more than seconds. `make bench` measures all
that needs no GPU again and rewrites the page.
"""


def section(result: dict[str, Any]) -> str:
    """One file of results as a section of the page."""
    parts = [f"## {result['title']}", f"{result['machine']}.", f"    {result['command']}"]
    for table in result["tables"]:
        columns = table["columns"]
        if any(len(row) != len(columns) for row in table["rows"]):
            raise ValueError(f"a row of {table['caption']!r} does not have {len(columns)} cells")
        lines = [columns, ["---"] * len(columns), *table["rows"]]
        parts.append(f"**{table['caption']}**")
        parts.append(
            "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
        )
        if table.get("notes"):
            parts.append(table["notes"])
    return "\n\n".join(parts) + "\n"


def page(results: Path) -> str:
    """The whole page."""
    files = sorted(
        results.glob("*.json"), key=lambda f: (FIRST.index(f.stem) if f.stem in FIRST else len(FIRST), f.stem)
    )
    return "\n".join([HEAD, *(section(json.loads(file.read_text(encoding="utf-8"))) for file in files)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "performance.md")
    arguments = parser.parse_args()
    arguments.page.write_text(page(arguments.results), encoding="utf-8")


if __name__ == "__main__":
    main()
