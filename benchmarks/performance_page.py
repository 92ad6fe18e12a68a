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
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIRST = (
    "cpu-ten_million",
    "cpu-same_prediction",
    "cpu-time_to_accuracy",
    "cpu-latency",
    "gpu-gpytorch",
    "cpu-beside_a_busy_process",
    "cpu-growth",
    "cpu-growing",
    "cpu-auto",
    "cpu-neighbours",
    "cpu-gauss_seidel",
    "cpu-likelihood",
    "cpu-sbc",
)
HEAD = """# Performance

First what a user waits for, then how far single steps are from what the machine can do. The command of each section
measures it again; `make bench` measures all that needs no GPU and rewrites this page. Contenders were timed in the same
run on the same machine, so ratios mean more than seconds.

Where a section names no machine it is this one: {machine}.
"""


def section(result: dict[str, Any], usual: str) -> str:
    """One file of results as a section of the page; the usual machine is not named again."""
    parts = [f"## {result['title']}", f"    {result['command']}"]
    if result["machine"] != usual:
        parts.insert(1, f"{result['machine']}.")
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
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    usual = Counter(result["machine"] for result in found).most_common(1)[0][0]
    return "\n".join([HEAD.format(machine=usual), *(section(result, usual) for result in found)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "performance.md")
    arguments = parser.parse_args()
    arguments.page.write_text(page(arguments.results), encoding="utf-8")


if __name__ == "__main__":
    main()
