"""Write the section of docs/comparison.md about other packages from benchmarks/results/peers.jsonl.

    python benchmarks/peers_page.py [--results FILE] [--page FILE]

Tables and sentences are made from what ``peers.py`` measured; no figure in them is written by hand. They stand between
two comments in the page, and the rest of it is left alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from contenders import ALL
from contenders.contender import Contender
from contenders.problems import LENGTHSCALE, NOISE_VARIANCE, ROWS, TESTS, TITLES, VARIANCE
from peers import RESULTS, Cell, Result, read, told

PAGE = Path(__file__).parents[1] / "docs" / "comparison.md"
BEGIN = "<!-- made by benchmarks/peers_page.py -->"
END = "<!-- until here -->"
OURS = {"cagp": "`cagp.fit`", "cagp-matern32": "cagp with one kernel"}
NOT_PEERS = (*OURS, "truth")
CLEARLY_FASTER, CLEARLY_BETTER = 0.8, 0.99
"""Ratios of seconds and of CRPS from which a difference is called one."""

Results = dict[Cell, Result]


def written(page: str, section: str) -> str:
    """The page with the section in its place."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page must hold {BEGIN!r} and {END!r} once each")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{section}\n{END}{rest.split(END)[1]}"


def section(results: Results) -> str:
    """All tables, then a paragraph about each package."""
    if not results:
        return "There are no results yet: `make peers` measures them.\n"
    parts = [introduction(results)]
    parts += [part for name in ROWS if (part := table(name, results))]
    parts.append("\n\n".join(["**How each was used, and where it is ahead of cagp and where not**", *about(results)]))
    return "\n\n".join(parts) + "\n"


def introduction(results: Results) -> str:
    machines = sorted({result["machine"] for result in results.values()})
    times, memory = ([result[each] for result in results.values()] for each in ("limit", "memory_limit"))
    time = f"{max(times):g}" if min(times) == max(times) else f"{min(times):g} to {max(times):g}"
    return (
        f"`make peers` ran every cell in a process of its own, after a small problem that loads and compiles: "
        f"{'; '.join(machines)}. A cell had {time} s and {max(memory):g} GiB; where a package went beyond them the "
        "table says so, and it was not tried with as many rows or more in as much time. Hyperparameters were estimated "
        "by each package from the training data, by the means that its documentation shows, never from test values. "
        "Where a setting of ours was changed after a look at test scores, the paragraph about the package says so.\n\n"
        f"The field is drawn from a Gaussian process with a Matérn 3/2 kernel on the unit square, lengthscale "
        f"{LENGTHSCALE:g}, variance {VARIANCE:g}, noise variance {NOISE_VARIANCE:g}; {TESTS:,} test points, of which a "
        "fifth lie in gaps without data. Packages with a Matérn 3/2 kernel were given that kernel, so they know more "
        "than `cagp.fit` by default, which tries several. Of Concrete 103 rows and of kin40k 5,000 are held out.\n\n"
        "What is predicted and scored are noisy observations: every package's error bars include its own estimate of "
        "the noise. Memory is the largest resident size of the process, libraries included. A CRPS is better when it "
        "is lower, and the shares within intervals of 50% and 95% are best at 50 and 95."
    )


def number(value: float) -> str:
    """Seconds or GiB with two digits, or whole."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def row(contender: Contender, result: Result, gaps: bool) -> list[str]:
    if result["status"] != "done":
        return [contender.title, told(result), *(["—"] * (7 + gaps))]
    scores = result["scores"]
    cells = [number(result["fit"]), number(result["predict"]), number(result["memory"] / 2**30)]
    cells += [f"{scores['rmse']:.4g}", f"{scores['crps']:.4g}"]
    cells += [f"{result['gaps']['crps']:.4g}"] if gaps else []
    cells += [f"{100 * scores['50']:.1f}", f"{100 * scores['95']:.1f}"]
    return [contender.title, *cells, result["version"]]


def table(name: str, results: Results) -> str:
    """One problem; empty where nothing was measured."""
    found = [(contender, results[key, name]) for key, contender in ALL.items() if (key, name) in results]
    if not found:
        return ""
    gaps = any("gaps" in result for _, result in found)
    columns = ["package", "fit, s", "predict, s", "GiB", "RMSE", "CRPS"]
    columns += ["CRPS in gaps"] if gaps else []
    columns += ["in 50%", "in 95%", "version"]
    lines = [columns, ["---"] * len(columns), *(row(contender, result, gaps) for contender, result in found)]
    return f"**{TITLES[name]}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def about(results: Results) -> list[str]:
    """A paragraph about each contender that has a result: how it was used, and how it compares with cagp."""
    paragraphs = []
    for key, contender in ALL.items():
        if not any(name == key for name, _ in results):
            continue
        sentences = [f"*{contender.title}.* {contender.note}"]
        if key not in NOT_PEERS:
            sentences += [text for ours, words in OURS.items() if (text := beside(key, ours, words, results))]
        paragraphs.append(" ".join(sentences))
    return paragraphs


def beside(theirs: str, ours: str, words: str, results: Results) -> str:
    """Where a contender is faster or slower, better or worse than one of ours, on the problems that both finished."""
    both = [name for name in ROWS if _done(results, theirs, name) and _done(results, ours, name)]
    only_ours = [name for name in ROWS if (theirs, name) in results and not _done(results, theirs, name)]
    only_ours = [name for name in only_ours if _done(results, ours, name)]
    if not both and not only_ours:
        return ""
    facts = _facts(
        both,
        CLEARLY_FASTER,
        ("faster", "slower", "about as fast"),
        " s",
        lambda name, key: _seconds(results[key, name]),
        theirs,
        ours,
    )
    facts += _facts(
        both,
        CLEARLY_BETTER,
        ("better in CRPS", "worse in CRPS", "level in CRPS"),
        "",
        lambda name, key: float(results[key, name]["scores"]["crps"]),
        theirs,
        ours,
    )
    if only_ours:
        facts.append(f"without a result where cagp has one: {', '.join(_short(name) for name in only_ours)}")
    return f"Beside {words}: {'; '.join(facts)}."


def _facts(
    names: list[str],
    ratio: float,
    words: tuple[str, str, str],
    unit: str,
    value: Callable[[str, str], float],
    theirs: str,
    ours: str,
) -> list[str]:
    """Up to three phrases: where they are below us by the ratio, where above, where neither."""
    groups: dict[str, list[str]] = {word: [] for word in words}
    for name in names:
        a, b = value(name, theirs), value(name, ours)
        word = words[0] if a < ratio * b else words[1] if b < ratio * a else words[2]
        groups[word].append(f"{_short(name)} ({_figure(a, unit)}{unit} against {_figure(b, unit)}{unit})")
    return [f"{word} on {', '.join(each)}" for word, each in groups.items() if each]


def _figure(value: float, unit: str) -> str:
    return number(value) if unit else f"{value:.4g}"


def _short(name: str) -> str:
    return (
        f"the field of {ROWS[name]:,}"
        if name.startswith("field")
        else name.capitalize()
        if name == "concrete"
        else name
    )


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
