"""How good is a fit after 1, 2, 4, … seconds, and does it end in time? Other packages beside it, from ``peers.py``.

    CAGP_DATA=... python benchmarks/budgets.py [--draw]

The problems are those of ``contenders/``: every fit sees the training data alone, and the CRPS is that of held-out
data. Numbers go to results/budgets.jsonl, the figure to docs/figures/seconds.png; ``--draw`` draws what is there.
Other packages stand where ``peers.py`` has them, by its seconds of the processor with one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from contenders.problems import TITLES, problem
from matplotlib.figure import Figure
from peers import RESULTS, machine, read

import cagp

KEPT = Path(__file__).parent / "results" / "budgets.jsonl"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "seconds.png"
PROBLEMS = ("concrete", "kin40k", "field-10000", "field-100000")
BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
BESIDE = {  # other packages, their marks and colours
    "gpboost": ("s", "#E69F00"),
    "scikit-learn": ("^", "#009E73"),
    "muygps": ("v", "#CC79A7"),
    "gpytorch-exact": ("D", "#56B4E9"),
    "gpytorch-svgp": ("P", "#56B4E9"),
    "gstlearn": ("X", "#D55E00"),
    "pykrige": ("*", "#999999"),
}


def measured(name: str) -> list[dict[str, Any]]:
    """The fits of one problem with each budget, in this process, which has compiled what they need."""
    data = problem(name)
    some = np.random.default_rng(0).permutation(len(data.y))[:2100]
    for rows in (60, 600, 2100):
        cagp.fit(data.X[some[:rows]], data.y[some[:rows]], seconds=1.0, progress=False)
    found = []
    for seconds in (*BUDGETS, None):
        began = time.perf_counter()
        model = cagp.fit(data.X, data.y, seconds=seconds, progress=False)
        took = time.perf_counter() - began
        scores = cagp.calibration.evaluate(
            model.predict(data.X_test, progress=False).observed(), data.y_test, "observed"
        )
        first = max(model.candidates, key=lambda each: each.seconds).seconds if len(model.candidates) == 1 else 0.0
        held = [100 * float(scores.coverage(level)) for level in (0.5, 0.95)]
        found.append({"budget": seconds, "took": took, "first": first, "crps": float(scores.crps), "held": held})
        print(
            f"{name:13} {seconds or 'default':>8} {took:6.1f} s  CRPS {scores.crps:.4f}  {held[0]:.1f} {held[1]:.1f}",
            flush=True,
        )
    return found


def draw(kept: dict[str, list[dict[str, Any]]]) -> None:
    """CRPS against seconds, a panel for each problem."""
    others, figure = read(RESULTS), Figure(figsize=(10.4, 7.4), layout="constrained")
    for ax, name in zip(figure.subplots(2, 2).flat, PROBLEMS, strict=True):
        found = sorted(kept[name], key=lambda each: float(each["took"]))
        ax.plot(
            [each["took"] for each in found], [each["crps"] for each in found], "o-", color="#0072B2", label="cagp.fit"
        )
        for peer, (mark, colour) in BESIDE.items():
            result = others.get((peer, name))
            if result is not None and result["status"] == "done":
                ax.plot(result["fit"], result["scores"]["crps"], mark, color=colour, markersize=9, label=peer)
        ax.set(
            xscale="log",
            title=TITLES[name],
            xlabel="seconds from the data to the model",
            ylabel="CRPS on held-out data",
        )
        ax.set_xticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize=9)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw what was measured before")
    if not parser.parse_args().draw:
        lines = [{"problem": name, "machine": machine(2), "fits": measured(name)} for name in PROBLEMS]
        KEPT.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    found = map(json.loads, KEPT.read_text(encoding="utf-8").splitlines())
    draw({each["problem"]: each["fits"] for each in found})


if __name__ == "__main__":
    main()
