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
from cagp_studies.scoreboard_results import beside_others, findings, predictors, protocol, remarks, scores, verdicts
from cagp_studies.scoreboard_sets import SETS
from cagp_studies.study import Comparison

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
        "setting": _setting(own, found["environments"]),
        "scores": _shown(scores(own, whole=True)),
        "findings": "\n".join(f"- {line}" for line in findings(own)),
        "others": _shown(beside_others(verdicts(own))),
        "predictors": _shown(predictors(own)),
        "remarks": "\n".join(f"- {line}" for line in remarks(own, tuple(SETS), whole=True)),
    }


def _shown(comparison: Comparison) -> str:
    return table(comparison.columns, comparison.rows)


def _setting(own: pd.DataFrame, environments: list[dict[str, str]]) -> str:
    machines = [
        f"cagp {each['cagp']}, torch {each['torch']} and Python {each['Python']} on one thread of {each['processor']}"
        for each in environments
    ]
    dates = " to ".join(sorted({own["date"].dropna().min(), own["date"].dropna().max()}))
    return f"**Protocol `{protocol(own)}`**, measured {dates} with {'; '.join(machines)}."


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
