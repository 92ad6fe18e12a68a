"""Run the scoreboard at full size and bring docs/scoreboard.md up to date; no number between its marks is by hand.

    CAGP_DATA=... python docs/make_scoreboard.py    # in a new folder, or with --out in one that is kept
    python docs/make_scoreboard.py --page           # the page alone, from docs/scoreboard.json

The table of all fits is kept in docs/scoreboard.json, with the machine; the figure goes to docs/figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from cagp_studies import STUDIES, load_all, run_study
from cagp_studies.markdown import between_marks, table
from cagp_studies.scoreboard_results import findings, protocol, remarks, scores
from cagp_studies.scoreboard_sets import SETS

HERE = Path(__file__).parent
RESULTS, PAGE, FIGURE = HERE / "scoreboard.json", HERE / "scoreboard.md", HERE / "figures" / "scoreboard.png"
_DIGITS = 8

Found = dict[str, Any]
"""What the study found, as docs/scoreboard.json has it."""


def collected(out: Path) -> Found:
    """What the page needs of the study in the folder ``out``."""
    [record] = [each for each in load_all(out) if each.name == "scoreboard"]
    if record.scale != "paper":
        raise SystemExit(f"{out} holds the scale {record.scale!r}, which is not the scoreboard; run --scale paper")
    rows = pd.read_csv(out / "scoreboard" / "table.csv", dtype={"data": str})
    numbers = {name: _DIGITS for name in rows.columns if rows[name].dtype == float}
    columns = json.loads(rows.round(numbers).to_json(orient="split", index=False, double_precision=_DIGITS))
    return {"environments": [dict(each) for each in record.environments], **columns}


def fits(found: Found) -> pd.DataFrame:
    """All rows of the study's table."""
    return pd.DataFrame(found["data"], columns=found["columns"])


def parts(found: Found) -> dict[str, str]:
    """What stands between the marks of the page."""
    own = fits(found)
    return {
        "setting": " ".join([_setting(own, found["environments"]), *_exceptions(own)]),
        "scores": _scores(own),
        "findings": "\n".join(f"- {line}" for line in findings(own)),
    }


def _exceptions(own: pd.DataFrame) -> list[str]:
    """Sets that are missing, and fits beyond the default budget."""
    return [line for line in remarks(own, tuple(SETS), whole=True) if line.startswith(("More seconds", "Not run"))]


def _scores(own: pd.DataFrame) -> str:
    """The columns that decide; the report of the study has all."""
    whole = scores(own, whole=True)
    kept = [i for i, name in enumerate(whole.columns) if name not in ("parts", "NLL", "interval score, 95%")]
    return table([whole.columns[i] for i in kept], [[row[i] for i in kept] for row in whole.rows])


def _setting(own: pd.DataFrame, environments: list[dict[str, str]]) -> str:
    machines = [
        f"cagp {each['cagp']}, torch {each['torch']} and Python {each['Python']} on one thread of {each['processor']}"
        for each in environments
    ]
    dates = " to ".join(sorted({own["date"].dropna().min(), own["date"].dropna().max()}))
    minutes = own["processor"].sum() / 60
    return (
        f"**Protocol `{protocol(own)}`**, measured {dates} with {'; '.join(machines)}: {minutes:.0f} minutes of the "
        "processor for all of it."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--out", type=Path, help="folder of the study; what is finished there is not run again")
    asked = parser.parse_args()
    if not asked.page:
        with tempfile.TemporaryDirectory() as new:
            out = asked.out or Path(new)
            run_study(STUDIES["scoreboard"], out, scale="paper")
            text = json.dumps(collected(out), ensure_ascii=False).replace("], [", "],\n[")  # a line a row
            RESULTS.write_text(text + "\n", encoding="utf-8")
            shutil.copyfile(out / "scoreboard" / "scores.png", FIGURE)
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), parts(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
