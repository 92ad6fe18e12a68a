"""Write the section of docs/comparison.md about other packages from benchmarks/results/peers.jsonl.

    python benchmarks/peers_page.py [--results FILE] [--page FILE]

Tables and sentences are made from what ``peers.py`` measured; no figure in them is written by hand. They stand between
two comments in the page, and the rest of it is left alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from contenders import ALL, ours
from contenders.contender import Contender
from contenders.problems import LENGTHSCALE, NOISE_VARIANCE, ROWS, SHORT, TESTS, TITLES, VARIANCE
from peers import RESULTS, Cell, Result, cells, read, told

PAGE = Path(__file__).parents[1] / "docs" / "comparison.md"
BEGIN = "<!-- made by benchmarks/peers_page.py -->"
END = "<!-- until here -->"
NOT_PEERS = tuple(each.name for each in ours.CONTENDERS)
BEHIND = 1.005
"""Who has a CRPS of more than so many times ours is behind; less is within what a package's own settings change."""

Results = dict[Cell, Result]


def written(page: str, section: str) -> str:
    """The page with the section in its place."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page must hold {BEGIN!r} and {END!r} once each")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{section}\n{END}{rest.split(END)[1]}"


def section(results: Results) -> str:
    """Who is ahead, all tables, then how each package was used."""
    if not results:
        return "There are no results yet: `make peers` measures them.\n"
    tables = [part for name in ROWS if (part := table(name, results))]
    return "\n\n".join([answer(results), introduction(results), *tables, used(results)]) + "\n"


def answer(results: Results) -> str:
    """Where a package is ahead of ``cagp.fit`` in seconds, and not behind in CRPS; and where it is better in CRPS."""
    rivals = [(key, name) for key, name in results if key not in NOT_PEERS and _done(results, key, name)]
    rivals = [(key, name) for key, name in rivals if _done(results, "cagp", name)]
    ratios = {(key, name): _crps(results[key, name]) / _crps(results["cagp", name]) for key, name in rivals}
    faster = {cell for cell in rivals if _seconds(results[cell]) < _seconds(results["cagp", cell[1]])}
    level = [cell for cell in rivals if cell in faster and ratios[cell] <= BEHIND]
    better = [cell for cell in rivals if cell not in faster and ratios[cell] < 1]
    cheap = [cell for cell in rivals if cell in faster and ratios[cell] > BEHIND]
    return "\n".join(
        [
            f"**Who is ahead of `cagp.fit(X, y)`.** Of {len(rivals)} pairs of a package and a problem:",
            "",
            f"- {len(level)} took less time, with a CRPS at most {100 * (BEHIND - 1):.1f}% higher"
            f"{_listed(level, results)}.",
            f"- {len(better)} took more time and had a lower CRPS{_listed(better, results)}.",
            f"- {len(cheap)} took less time and had a higher CRPS{_span([ratios[cell] - 1 for cell in cheap])}.",
            f"- {len(rivals) - len(level) - len(better) - len(cheap)} were neither faster nor better.",
        ]
    )


def _listed(cells: list[Cell], results: Results) -> str:
    said = [
        f"{ALL[key].title} on {SHORT[name]} ({number(_seconds(results[key, name]))} s against "
        f"{number(_seconds(results['cagp', name]))} s, CRPS {_crps(results[key, name]):#.4g} against "
        f"{_crps(results['cagp', name]):#.4g})"
        for key, name in cells
    ]
    return f": {'; '.join(said)}" if said else ""


def _span(shares: list[float]) -> str:
    if not shares:
        return ""
    low, high = (f"{100 * each:.1f}%" if each < 0.1 else f"{100 * each:.0f}%" for each in (min(shares), max(shares)))
    return f", by {low} to {high}"


def introduction(results: Results) -> str:
    versions = " and ".join(
        sorted({f"Python{result['machine'].partition(', Python')[2]}" for result in results.values()})
    )
    limits, memory = ([result[each] for result in results.values()] for each in ("limit", "memory_limit"))
    return (
        f"Measured {_measured(results.values())}; cagp with {versions}. Times are seconds of the processor in a "
        "process of its own, after a small problem that loads and compiles. A package had "
        f"{max(limits):g} s and {max(memory):g} GiB; one without a result needed more, here or with fewer rows. Each "
        "estimated hyperparameters from the training data alone, as its documentation shows, in tables with a "
        "lengthscale for each column.\n\n"
        f"The field is drawn from a Gaussian process with a Matérn 3/2 kernel on the unit square, lengthscale "
        f"{LENGTHSCALE:g}, variance {VARIANCE:g}, noise variance {NOISE_VARIANCE:g}; a fifth of its {TESTS:,} test "
        "points lie in gaps. Packages that have this kernel were given it; `cagp.fit` tries several. The field at ten "
        "times is the beginning of a set of KAUST's competition of 2022, with a tenth of the values missing at random. "
        "Of Concrete 103 rows, of kin40k 5,000 and of Bike sharing 2,379 are held out.\n\n"
        "Scored are new observations. The CRPS judges means and error bars together, less is better. What 50% and 80% "
        "hold, memory and the CRPS in the gaps are in `benchmarks/results/peers.jsonl`."
    )


def _measured(results: Iterable[Result]) -> str:
    """When and where."""
    known = list(results)
    dates, machines = (sorted({result[each] for result in known}) for each in ("date", "machine"))
    days = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    where = sorted({each.partition(", Python")[0] for each in machines})
    return f"{days} on {'; '.join(where)}"


def number(value: float) -> str:
    """Seconds with two digits, or whole."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def row(contender: Contender, result: Result) -> list[str]:
    scores = result["scores"]
    cells = [number(result["fit"]), number(result["predict"]), f"{scores['rmse']:#.4g}", f"{scores['crps']:#.4g}"]
    return [contender.title, *cells, f"{100 * scores['95']:.1f}"]


def table(name: str, results: Results) -> str:
    """One problem, where it was measured if not with all others, and who has no result; empty without measurements."""
    found = {contender: results[key, name] for key, contender in ALL.items() if (key, name) in results}
    done = {contender: result for contender, result in found.items() if result["status"] == "done"}
    if not found:
        return ""
    columns = ["package", "fit, s", "predict, s", "RMSE", "CRPS", "in 95%, %"]
    lines = [columns, ["---"] * len(columns), *(row(contender, result) for contender, result in done.items())]
    where = _measured(found.values())
    text = f"**{TITLES[name]}**{'' if where == _measured(results.values()) else f' ({where})'}\n\n"
    text += "\n".join(f"| {' | '.join(line)} |" for line in lines)
    without = {each.title: _why(result) for each, result in found.items() if each not in done}
    lacking = [ALL[key].title for key, problem in cells() if problem == name and (key, name) not in results]
    without |= dict.fromkeys(lacking, "not measured yet")
    parts = [
        f" *{why}*: {'; '.join(title for title, other in without.items() if other == why)}."
        for why in dict.fromkeys(without.values())
    ]
    return text + (f"\n\nWithout a result:{''.join(parts)}" if parts else "")


def _why(result: Result) -> str:
    """In words; what was hopeless after fewer rows is said as what it was there."""
    if result["status"] == "not tried":
        return str(result["reason"].partition(" with ")[0])
    return f"{told(result)}: {' '.join(result['reason'].split())}" if result["status"] == "failed" else told(result)


def used(results: Results) -> str:
    """A line about each contender that has a result: its version, and how it was used."""
    lines = ["**How each was used**", ""]
    for key, contender in ALL.items():
        mine = [result for (name, _), result in results.items() if name == key]
        versions = sorted({result["version"] for result in mine if "version" in result})
        if mine:
            version = f" ({', '.join(versions)})" if versions and key not in NOT_PEERS else ""
            lines.append(f"- *{contender.title}*{version}: {contender.note}")
    return "\n".join(lines)


def _crps(result: Result) -> float:
    return float(result["scores"]["crps"])


def _seconds(result: Result) -> float:
    return float(result["fit"] + result["predict"])


def _done(results: Results, contender: str, name: str) -> bool:
    return results.get((contender, name), {}).get("status") == "done"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    old = arguments.page.read_text(encoding="utf-8")
    arguments.page.write_text(written(old, section(read(arguments.results))), encoding="utf-8")


if __name__ == "__main__":
    main()
