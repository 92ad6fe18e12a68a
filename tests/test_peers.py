"""The comparison with other packages: its problems, scores, runner and page, without any of the packages."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement
from scipy.spatial import cKDTree
from scipy.stats import norm

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    import peers
    import peers_page
    from contenders import ALL
    from contenders.cell import clocks
    from contenders.contender import LEVELS, Gaussian, Quantiles, Standardised
    from contenders.problems import KIND, LENGTHSCALE, NOISE_VARIANCE, ROWS, SHORT, TITLES, field, simulated
finally:
    sys.path.pop(0)


def test_importing_the_contenders_needs_none_of_the_packages() -> None:
    needed = ("gpboost", "gpytorch", "gstlearn", "gstools", "mapie", "MuyGPyS", "pykrige", "sklearn", "xrspatial")
    code = f"import sys, contenders; sys.exit(any(name in sys.modules for name in {needed}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", check=False).returncode == 0


def test_sizes_are_parts_of_each_other_and_gaps_hold_no_data() -> None:
    small, large = (field(n, side=150, tests=300) for n in (500, 8000))
    assert np.array_equal(small.X, large.X[:500])
    assert np.array_equal(small.y, large.y[:500])
    assert np.array_equal(small.y_test, large.y_test)
    assert small.in_gap.sum() == 60
    distance = cKDTree(large.X).query(large.X_test)[0]
    assert distance[large.in_gap].mean() > 2 * distance[~large.in_gap].mean()
    assert distance.min() > 0  # no test point is a training point
    with pytest.raises(ValueError, match="do not fit"):
        field(10_000, side=100, tests=50)


def test_the_field_has_the_covariance_that_it_says() -> None:
    """Over many draws: variance 1 and, a lengthscale apart, the Matérn 3/2 correlation."""
    side, rng = 61, np.random.default_rng(0)
    draws = np.stack([simulated(side, rng) for _ in range(150)])
    step = round(LENGTHSCALE * (side - 1))
    r = np.sqrt(3) * step / (side - 1) / LENGTHSCALE
    assert np.mean(draws**2) == pytest.approx(1.0, abs=0.03)
    assert np.mean(draws[:, step:] * draws[:, :-step]) == pytest.approx((1 + r) * np.exp(-r), abs=0.03)
    problem = field(3000, side=100, tests=100)
    assert 0 < NOISE_VARIANCE < problem.y.var()


def test_scores_are_those_of_the_definition() -> None:
    """CRPS is the integral of (F(x) − 1[x ≥ y])², coverage counts what lies between two quantiles."""
    rng = np.random.default_rng(0)
    mean, y, std = rng.normal(size=50), rng.normal(size=50), 0.5 + rng.random(50)
    chosen = rng.random(50) < 0.7
    found = Gaussian(mean, std).scores(y, chosen)
    x = np.linspace(-20, 20, 40_001)
    steps = [(norm.cdf(x, m, s) - (x >= v)) ** 2 for m, s, v in zip(mean, std, y, strict=True)]
    assert found["crps"] == pytest.approx(np.mean(np.trapezoid(steps, x, axis=1)[chosen]), abs=1e-3)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((mean - y)[chosen] ** 2)))
    for name, level in LEVELS.items():
        low, high = norm.interval(level, mean, std)
        assert found[name] == pytest.approx(np.mean(((low <= y) & (y <= high))[chosen]))
    with pytest.raises(FloatingPointError, match="not a number"):
        Gaussian(mean, np.full(50, np.nan)).scores(y, chosen)


def test_quantiles_are_scored_as_the_distribution_that_they_are_of() -> None:
    rng = np.random.default_rng(0)
    mean, y, std = rng.normal(size=200), rng.normal(size=200), 0.5 + rng.random(200)
    chosen = rng.random(200) < 0.7
    levels = np.array([0.001, *np.arange(0.025, 0.99, 0.025), 0.999])
    quantiles = norm.ppf(levels[:, None], mean, std)
    quantiles[[3, 4]] = quantiles[[4, 3]]  # quantiles that cross
    found, exact = Quantiles(mean, levels, quantiles).scores(y, chosen), Gaussian(mean, std).scores(y, chosen)
    assert found["crps"] == pytest.approx(exact["crps"], rel=0.01)
    assert {name: found[name] for name in (*LEVELS, "rmse")} == {name: exact[name] for name in (*LEVELS, "rmse")}
    with pytest.raises(FloatingPointError, match="not a number"):
        Quantiles(mean, levels, np.full_like(quantiles, np.nan)).scores(y, chosen)


def test_standardised_predictions_come_back() -> None:
    rng = np.random.default_rng(0)
    X, y = 5 + 3 * rng.normal(size=(40, 2)), 7 + 2 * rng.normal(size=40)
    form = Standardised.of(X, y)
    back = form.back(form.values(y), np.full(40, 0.25))
    assert np.allclose(back.mean, y)
    assert np.allclose(back.std, 0.5 * y.std())
    assert np.allclose(form.points(X).std(axis=0), 1)


def result(contender: str, problem: str, status: str = "done", **more: Any) -> peers.Result:
    scores = {"rmse": 0.3, "crps": 0.2, "50": 0.5, "80": 0.8, "95": 0.95}
    found = {"contender": contender, "problem": problem, "limit": 120.0, "memory_limit": 12.0, "machine": "a machine"}
    found["date"] = "2026-11-01"
    done = {"fit": 10.0, "predict": 1.0, "memory": 2**30, "scores": scores, "version": "1.0"}
    return {**found, "status": status, **(done if status == "done" else {}), **more}


def test_the_last_result_of_a_cell_counts(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert peers.read(path) == {}
    for limit in (60.0, 120.0):
        peers.append(path, result("gpboost", "concrete", "over time", limit=limit))
    assert peers.read(path)["gpboost", "concrete"]["limit"] == 120.0
    assert len(path.read_text().splitlines()) == 2


def test_what_is_run_again_and_what_is_hopeless() -> None:
    asked = argparse.Namespace(only=[], limit=120.0, memory=12.0)
    over = result("gpboost", "field-10000", "over time")
    assert peers.due(None, asked)
    assert not peers.due(result("gpboost", "concrete"), asked)
    assert not peers.due(over, asked)
    assert peers.due(over, argparse.Namespace(only=[], limit=300.0, memory=12.0))
    assert peers.due(result("gpboost", "concrete"), argparse.Namespace(only=["gpboost"], limit=120.0, memory=12.0))
    known = {("gpboost", "field-10000"): over}
    assert peers.hopeless("gpboost", "field-100000", known, 120.0) == "over 120 s with 10,000 rows"
    assert peers.hopeless("gpboost", "field-100000", known, 300.0) == ""
    assert peers.hopeless("gpboost", "field-1000", known, 120.0) == ""
    assert peers.hopeless("muygps", "field-100000", known, 120.0) == ""


def test_names_stand_for_families_and_geostatistics_stays_in_space() -> None:
    assert [name for name in ALL if peers.matches(name, ["cagp"])] == ["cagp"]
    assert sum(peers.matches(name, ["gpytorch"]) for name in ALL) == 4
    assert ("pykrige", "concrete") not in peers.cells()
    assert ("pykrige", "field-1000") in peers.cells()
    assert ("trees", "film") not in peers.cells()
    assert set(TITLES) == set(ROWS) == set(KIND) == set(SHORT)


def scored(crps: float) -> dict[str, float]:
    return {"rmse": 0.4, "crps": crps, "50": 0.5, "80": 0.8, "95": 0.9}


def test_the_page_says_who_is_ahead() -> None:
    results = [
        result("cagp", "concrete"),
        result("gpboost", "concrete", fit=1.0, scores=scored(0.25)),  # faster and worse
        result("trees", "concrete", fit=1.0, scores=scored(0.2)),  # ahead
        result("muygps", "concrete", fit=30.0, scores=scored(0.1)),  # slower and better
        result("scikit-learn", "concrete", fit=30.0),  # neither
        result("cagp", "field-10000", gaps={"crps": 0.4}),
        result("gpboost", "field-10000", "over time"),
        result("gstlearn", "field-10000", "failed", reason="ValueError:\nno"),
    ]
    page = peers_page.section({(each["contender"], each["problem"]): each for each in results})
    assert "Of 4 pairs of a package and a problem" in page
    ahead = "scikit-learn, boosted trees on Concrete (2.0 s against 11 s, CRPS 0.2000 against 0.2000)."
    assert f"- 1 took less time, with a CRPS at most 0.5% higher: {ahead}" in page
    assert "- 1 took more time and had a lower CRPS: MuyGPyS on Concrete (31 s against 11 s, CRPS 0.1000" in page
    assert "- 1 took less time and had a higher CRPS, by 25% to 25%." in page
    assert "- 1 were neither" in page
    assert "Measured 2026-11-01 on a machine; cagp with" in page
    assert "**Concrete, 927 rows, 8 columns**\n" in page
    assert "| GPBoost, Vecchia | 1.0 | 1.0 | 0.4000 | 0.2500 | 90.0 |" in page
    failed = "Without a result: *over 120 s*: GPBoost, Vecchia. *failed: ValueError: no*: gstlearn, moving window. "
    assert f"{failed}*not measured yet*: cagp, one kernel; the true parameters; " in page
    assert "- *GPBoost, Vecchia* (1.0): Matérn 3/2" in page
    for table in page.split("**")[2::2]:
        assert len({line.count("|") for line in table.splitlines() if line.startswith("|")}) <= 1


def test_the_section_in_the_docs_is_made_from_the_results() -> None:
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert page == peers_page.written(page, peers_page.section(peers.read(peers.RESULTS)))
    with pytest.raises(ValueError, match="once each"):
        peers_page.written("no place for it", "section")


def test_time_of_the_processor_is_that_of_the_process_and_its_children() -> None:
    own, (processor, wall) = time.process_time(), clocks()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    (later, wall_later), own_later = clocks(), time.process_time()
    assert later - processor > own_later - own
    assert wall_later > wall
    assert peers.processor_seconds(os.getpid()) == pytest.approx(later, abs=1.0)
    assert peers.processor_seconds(2**30) == 0.0  # there is no such process


def test_a_cell_that_fails_says_why(tmp_path: Path) -> None:
    """A process of its own: here one whose problem does not exist."""
    out = tmp_path / "result.json"
    command = [sys.executable, "-m", "contenders.cell", "gpboost", str(tmp_path / "none.npz"), str(out)]
    subprocess.run(command, cwd=ROOT / "benchmarks", check=True)
    found = json.loads(out.read_text())
    assert found["status"] == "failed"
    assert "none.npz" in found["reason"]


def test_the_versions_of_the_packages_are_pinned() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    needs = {need.name.lower(): need for need in map(Requirement, extras["peers"])}
    assert {each.package.lower() for each in ALL.values()} <= set(needs)
    assert all("==" in str(need.specifier) for name, need in needs.items() if name != "cagp")
