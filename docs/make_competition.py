"""Run the competition at full size and bring docs/competition.md up to date; no number on it is written by hand.

    CAGP_DATA=... python docs/make_competition.py          # a minute of computing on two cores, then all of the below
    python docs/make_competition.py --page                 # the page alone, from docs/competition.json

The study ``cagp reproduce heaton --scale paper`` is run in a new folder, what it found is written to
docs/competition.json, its figures to docs/figures, and the parts of the page between marks are written anew. With the
satellite data (CAGP_DATA, CAGP_SATELLITE) the page has their table as well.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from cagp_studies import STUDIES, load_all, run_study
from cagp_studies.heaton_data import SATELLITE, SIMULATED
from cagp_studies.heaton_figures import binned
from cagp_studies.heaton_results import PUBLISHED, SOURCES
from cagp_studies.markdown import between_marks, table

HERE = Path(__file__).parent
RESULTS, PAGE, FIGURES = HERE / "competition.json", HERE / "competition.md", HERE / "figures"
DRAWN = ("fields", "errors", "coverage")
_WIDTH, _BYTES = 1100, 150_000

Found = dict[str, Any]
"""What the study found, as docs/competition.json has it."""


# --- from the study to the file ---------------------------------------------------------------------------------------


def collected(out: Path) -> Found:
    """What the page needs of the study in the folder ``out``."""
    [record] = [each for each in load_all(out) if each.name == "heaton"]
    if record.scale != "paper":
        raise SystemExit(f"{out} holds the scale {record.scale!r}, which is not the competition; run --scale paper")
    tables = {name: pd.read_csv(out / "heaton" / f"{name}.csv") for name in record.tables}
    names = list(tables["table"]["data"])
    found: Found = {"environment": dict(record.environments[-1]), "fields": {}}
    for i, name in enumerate(names):
        own = {table: rows[rows["data"] == name] for table, rows in tables.items()}
        scores, tried, model = record.comparisons[3 * i : 3 * i + 3]
        found["fields"][name] = {
            "facts": own["table"].iloc[0].to_dict(),
            "scores": {"columns": scores.columns, "rows": scores.rows},
            "candidates": {"columns": tried.columns, "rows": tried.rows},
            "model": {"columns": model.columns, "rows": model.rows},
            "story": [line for line in own["story"]["told"] if not line.startswith("  ")],
            "by_distance": binned(own["gaps"]).round(4).to_dict(orient="records"),
            "stages": own["stages"][["stage", "seconds"]].round(2).to_dict(orient="records"),
        }
    return found


def shrink(source: Path, target: Path) -> None:
    """A picture that is not too large for a page: noise does not compress, unless it has fewer dots and colours."""
    from PIL import Image

    with Image.open(source) as picture:
        height = round(picture.height * min(1.0, _WIDTH / picture.width))
        small = picture.convert("RGB").resize((min(_WIDTH, picture.width), height), Image.Resampling.LANCZOS)
    small.save(target, optimize=True)
    if target.stat().st_size > _BYTES:
        small.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(target, optimize=True)


# --- from the file to the page ----------------------------------------------------------------------------------------


def scores(found: Found) -> str:
    own = found["fields"][SIMULATED]["scores"]
    kept = [i for i, name in enumerate(own["columns"]) if name not in ("MAE", "minutes", "source")]
    rows = [[f"**{row[i]}**" if row[0].startswith("cagp") else row[i] for i in kept] for row in own["rows"]]
    return table([own["columns"][i] for i in kept], rows)


def satellite(found: Found) -> str:
    own = found["fields"].get(SATELLITE)
    columns = found["fields"][SIMULATED]["scores"]["columns"]
    if own is None:
        said = (
            "**We have no row of our own here**: the file is not among the data that this page is made with. Where it "
            "is found, the same command adds the row. Until then this table says nothing about cagp."
        )
        shown = table(columns, sorted(PUBLISHED[SATELLITE], key=lambda row: float(row[2])))
    else:
        facts = own["facts"]
        said = (
            f"{facts['train']:,} observations; {facts['scored']:,} of {facts['gaps']:,} places are scored, for the "
            f"truth is not known at the others. 50% intervals hold {facts['holds_50']:.1%}."
        )
        rows = [[f"**{cell}**" if row[0].startswith("cagp") else cell for cell in row] for row in own["scores"]["rows"]]
        shown = table(columns, rows)
    return f"{said}\n\n{shown}\n\n" + "\n".join(f"- {each}" for each in SOURCES)


def setting(found: Found) -> str:
    facts, versions = found["fields"][SIMULATED]["facts"], found["environment"]
    threads = "1 core" if facts["threads"] == 1 else f"{facts['threads']} cores"
    took = facts["fit_seconds"] + facts["predict_seconds"]
    return (
        f"{facts['train']:,} observations are given, {facts['gaps']:,} places are to be predicted. From the data to "
        f"all predictions it takes {took:.0f} s, with cagp {versions['cagp']}, torch {versions['torch']} and Python "
        f"{versions['Python']} on {threads} of a machine with {versions['processor']}; seed {facts['seed']}."
    )


def findings(found: Found) -> str:
    """What the table does not say."""
    own = found["fields"][SIMULATED]
    facts = own["facts"]
    best = min(PUBLISHED[SIMULATED], key=lambda row: float(row[2]))
    change, promised = facts["rmse"] / float(best[2]) - 1, float(own["candidates"]["rows"][0][1])
    return (
        f"The RMSE is {abs(change):.0%} {'below' if change < 0 else 'above'} the best published one. 50% intervals "
        f"hold {facts['holds_50']:.1%}. Left-out observations promised a CRPS of {promised:.3f}."
    )


def distance(found: Found) -> str:
    groups = found["fields"][SIMULATED]["by_distance"]
    near, far = groups[0], groups[-1]
    return (
        f"Next to the data ({near['distance']:.3f}° on average) 50% intervals hold {near['holds_50']:.1%} and 95% "
        f"intervals {near['holds_95']:.1%}; furthest from them ({far['distance']:.2f}°) {far['holds_50']:.1%} and "
        f"{far['holds_95']:.1%}. The RMSE grows from {near['rmse']:.2f} to {far['rmse']:.2f} °C, and the predicted "
        f"standard deviation from {near['std']:.2f} to {far['std']:.2f} °C."
    )


PARTS: dict[str, Callable[[Found], str]] = {
    each.__name__: each for each in (setting, scores, findings, distance, satellite)
}


def refreshed(text: str, found: Found) -> str:
    """The page with each part between its marks written anew."""
    return between_marks(text, {name: part(found) for name, part in PARTS.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--out", type=Path, help="folder of the study; what is finished there is not run again")
    asked = parser.parse_args()
    if not asked.page:
        with tempfile.TemporaryDirectory() as new:
            out = asked.out or Path(new)
            run_study(STUDIES["heaton"], out, scale="paper")
            RESULTS.write_text(json.dumps(collected(out), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            for name in DRAWN:
                shrink(out / "heaton" / f"{name}_{SIMULATED}.png", FIGURES / f"competition-{name}.png")
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
