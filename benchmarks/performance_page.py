"""Write docs/performance.md from benchmarks/results/*.json; no figure in it is written by hand.

Each file holds one section of the page, in this form:

    {"title": "heading of the section",
     "command": "what was run",
     "machine": "on what, with which versions",
     "tables": [{"caption": "…", "columns": ["…", …], "rows": [["…", …], …], "notes": "…"}]}

All cells are text, as they are to appear. The page has the tables that ``SHOWN`` names, in its order; with ``--all``
it has all others, too, then by file name.

    python benchmarks/performance_page.py [--results FOLDER] [--page FILE] [--all]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHOWN: dict[str, dict[int, tuple[str, ...]]] = {
    "cpu-ten_million": {0: ()},
    "cpu-same_prediction": {0: ()},
    "cpu-time_to_accuracy": {0: ()},
    "cpu-latency": {
        0: ("model", "components", "median", "processor time"),
        1: ("model", "1 at a time, 1 thread", "1 at a time, 8 threads", "100 at a time, 8 threads"),
        2: (),
    },
    "gpu-gpytorch": {0: ("what", "fit, s", "predict, s", "GiB on the GPU", "CRPS", "in 95%")},
    "cpu-growth": {0: ("G", "what doubles", "ratio"), 1: ("d", "tree and first point, s", "µs per test point")},
    "cpu-auto": {0: ("d", "p", "T", "Auto picked", "s", "Auto / best")},
    "cpu-gauss_seidel": {1: ()},
    "gpu": {2: ("what", "seconds", "peak GiB"), 4: ()},
}
"""Which tables of which files users decide by, and which of their columns, by default all. The others are about how
near a step is to its floor."""

HEAD = """# Performance

How long users wait. The command of each section measures it again; `make bench` measures all that needs no GPU and
rewrites this page. All rows of a table are of the same run, so ratios mean more than seconds. How near single steps are
to what the machine can do is written by `python benchmarks/performance_page.py --all --page FILE`.

Where a section names no machine it is this one: {machine}.
"""


def section(result: dict[str, Any], usual: str) -> str:
    """One file of results as a section of the page; the usual machine is not named again."""
    parts = [f"## {result['title']}", f"    {result['command']}"]
    if result["machine"] != usual:
        same, _, date = result["machine"].rpartition(", on ")
        parts.insert(1, f"On {date}." if same == usual.rpartition(", on ")[0] else f"{result['machine']}.")
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


def _only(table: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    """The table with these columns; a note about a floor goes with the columns about it."""
    kept = [table["columns"].index(name) for name in columns] or range(len(table["columns"]))
    rows = [[row[i] for i in kept] for row in table["rows"]]
    notes = "" if columns and table.get("notes", "").startswith("Floor") else table.get("notes", "")
    return {**table, "columns": [table["columns"][i] for i in kept], "rows": rows, "notes": notes}


def page(results: Path, whole: bool = False) -> str:
    """The page, with all tables where it is ``whole``."""
    order = list(SHOWN)
    files = sorted(
        results.glob("*.json"), key=lambda f: (order.index(f.stem) if f.stem in SHOWN else len(order), f.stem)
    )
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files if whole or file.stem in SHOWN]
    if not whole:
        for file, result in zip((file for file in files if file.stem in SHOWN), found, strict=True):
            tables = result["tables"]
            result["tables"] = [_only(tables[i], columns) for i, columns in SHOWN[file.stem].items()]
    usual = Counter(result["machine"] for result in found).most_common(1)[0][0]
    return "\n".join([HEAD.format(machine=usual), *(section(result, usual) for result in found)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "performance.md")
    parser.add_argument("--all", action="store_true", help="all tables, also those that no user decides by")
    arguments = parser.parse_args()
    arguments.page.write_text(page(arguments.results, arguments.all), encoding="utf-8")


if __name__ == "__main__":
    main()
