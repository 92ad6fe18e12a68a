"""The study of wall time: what it measures, never how fast this machine is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from cagp.solvers import Cholesky, ConjugateGradient, GaussSeidel, Subset
from cagp_studies import run_study
from cagp_studies.timing import Time, _verdict, busy
from tiny import TinyTime


def test_table(tmp_path: Path) -> None:
    record = run_study(TinyTime(), tmp_path, jobs=2)
    table = pd.read_csv(tmp_path / "time" / "table.csv")
    assert list(table.columns) == ["seed", "run", "solver", "m", "rmse", "nll", "seconds", "processor_seconds"]
    assert len(table) == 2 * (2 + 2 + 2 + 1)
    assert (table["seconds"] > 0).all()
    exact = table[table["solver"] == Cholesky.name].set_index("run")
    everything = table[(table["solver"] == Subset.name) & (table["m"] == 20)].set_index("run")
    pd.testing.assert_series_equal(exact["rmse"], everything["rmse"], rtol=1e-9)
    pd.testing.assert_series_equal(exact["nll"], everything["nll"], rtol=1e-9)
    assert any("warm-up" in remark for remark in record.remarks)


def test_configuration_is_that_of_the_paper() -> None:
    config = Time.scales["paper"]
    assert (config.n, config.side**2, config.n in config.sizes) == (100, 25, True)


def summary(gs: float, cg: float, gs_ms: float, exact_ms: float) -> pd.DataFrame:
    """All errors of GS and of CG the same, CG as slow as GS."""
    rows = [
        {"solver": solver, "m": m, "rmse_mean": error, "nll_mean": error, "milliseconds": time * m}
        for solver, error, time in (
            (GaussSeidel.name, gs, gs_ms),
            (ConjugateGradient.name, cg, gs_ms),
            (Cholesky.name, 0.1, exact_ms),
        )
        for m in ((1,) if solver == Cholesky.name else (1, 2, 3))
    ]
    return pd.DataFrame(rows).set_index(["solver", "m"])


def test_verdict_follows_the_numbers() -> None:
    assert "GS is ahead of CG in" in _verdict(summary(gs=1, cg=2, gs_ms=1, exact_ms=9))
    assert "not ahead" in _verdict(summary(gs=2, cg=1, gs_ms=1, exact_ms=9))
    assert "as the paper finds" in _verdict(summary(gs=1, cg=2, gs_ms=1, exact_ms=9))
    assert "not found" in _verdict(summary(gs=1, cg=2, gs_ms=1, exact_ms=1.5))


@pytest.mark.parametrize(("wall", "remarks"), [(1.05, 0), (2.0, 1)])
def test_abusy_machine_is_told(wall: float, remarks: int) -> None:
    table = pd.DataFrame({"seconds": [wall] * 10, "processor_seconds": [1.0] * 10})
    assert len(busy(table)) == remarks
