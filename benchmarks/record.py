"""Tables of a benchmark: printed, and written as JSON for ``performance_page.py``, which says what is in the file."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from cagp_studies.machine import describe

RESULTS = Path(__file__).parent / "results"
Table = dict[str, Any]


def options(doc: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether it runs, not how fast")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    return parser


def table(caption: str, columns: list[str], rows: list[list[str]], notes: str = "") -> Table:
    """A table as it is written; it is printed too."""
    assert all(len(row) == len(columns) for row in rows)
    widths = [max(len(line[i]) for line in [columns, *rows]) for i in range(len(columns))]
    print(f"\n{caption}\n")
    for line in [columns, *rows]:
        print("  " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    if notes:
        print(f"\n  {notes}", flush=True)
    return {"caption": caption, "columns": columns, "rows": rows, "notes": notes}


def write(folder: Path, name: str, title: str, tables: list[Table], quick: bool) -> None:
    """Write the tables to ``folder``/cpu-``name``.json."""
    found = describe()
    machine = ", ".join(
        [found["processor"], f"{torch.get_num_threads()} threads"]
        + [f"{package} {found[package]}" for package in ("Python", "torch", "numpy", "scipy")]
        + [f"on {time.strftime('%-d %B %Y')}"]
    )
    command = f"python benchmarks/{name}.py" + (" --quick" if quick else "")
    result = {"title": title, "command": command, "machine": machine, "tables": tables}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"cpu-{name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def gemm_rate(dtype: torch.dtype, n: int) -> float:
    """Floating-point operations per second of a large matrix product."""
    A = torch.rand(n, n, dtype=dtype)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        A @ A
        times.append(time.perf_counter() - start)
    return 2 * n**3 / statistics.median(times[1:])
