"""Studies that build on another one, share their pieces with another one, take more solvers, or say what they need."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from cagp import InputError
from cagp_studies import STUDIES, Forecast, run_study
from cagp_studies.machine import Rates, measure, pass_seconds
from cagp_studies.study import Tables
from cagp_studies.uci import Uci
from tiny import SquareConfig, SquarePiece, Squares, on_real_data


class Later(Squares):
    """Takes its power from the results of the squares: the second of them, rounded up."""

    name = "later"
    builds_on = Squares()

    def complete(self, config: SquareConfig, tables: Tables) -> SquareConfig:
        return dataclasses.replace(config, power=2 + round(float(tables["table"]["result"][1])))


class Twin(Squares):
    """The same pieces, shown differently."""

    name = "twin"
    work = "squares"


class Foreseen(Squares):
    name = "foreseen"

    def forecast(self, config: SquareConfig, pieces: Sequence[SquarePiece]) -> Forecast:
        return Forecast(seconds=10.0 * len(pieces), memory=5.0)


def test_a_study_is_completed_by_the_one_it_builds_on(tmp_path: Path) -> None:
    record = run_study(Later(), tmp_path, seed=1)
    assert record.configuration["power"] == 3  # (1.1)² is 1.21
    assert pd.read_csv(tmp_path / "later" / "table.csv")["result"][2] == pytest.approx(2.1**3)
    assert (tmp_path / "squares" / "study.json").exists()
    assert set(pd.read_csv(tmp_path / "squares" / "table.csv")["seed"]) == {1}


def test_twins_share_pieces(tmp_path: Path) -> None:
    first, second = Squares(), Twin()
    run_study(first, tmp_path)
    run_study(second, tmp_path)
    assert (first.computed, second.computed) == ([0, 1, 2, 3], [])
    assert pd.read_csv(tmp_path / "twin" / "table.csv").equals(pd.read_csv(tmp_path / "squares" / "table.csv"))
    assert not (tmp_path / "twin" / "pieces").exists()


def test_the_forecast_comes_first_and_counts_what_is_missing(tmp_path: Path) -> None:
    study = Foreseen()
    told: list[tuple[str, Forecast, list[int]]] = []

    def announce(name: str, forecast: Forecast) -> None:
        told.append((name, forecast, list(study.computed)))

    study.fails_at = 1
    with pytest.raises(RuntimeError):
        run_study(study, tmp_path, announce=announce)
    study.fails_at = None
    for _ in range(2):  # the second time there is nothing left to do, and nothing to tell
        run_study(study, tmp_path, announce=announce)
    assert told == [("foreseen", Forecast(40.0, 5.0), []), ("foreseen", Forecast(30.0, 5.0), [0])]
    assert Forecast(40.0, 5.0).shared_by(2) == Forecast(20.0, 10.0)


def test_studies_with_fixed_solvers_refuse_others(tmp_path: Path) -> None:
    study = Squares()
    with pytest.raises(InputError, match="squares has the paper's solvers"):
        run_study(study, tmp_path, solvers=["subset"])
    assert study.computed == []


def test_more_solvers_are_another_configuration() -> None:
    study = Uci()
    config = study.scales["quick"]
    more = study.with_solvers(config, ("subset", "gauss-seidel"))
    assert more.solvers == (*config.solvers, "subset")
    for wrong, words in (("nonsense", "must be one of"), ("chain", "more than its name"), ("cholesky", "always shown")):
        with pytest.raises(InputError, match=words):
            study.with_solvers(config, (wrong,))


def test_rates_are_those_of_the_work() -> None:
    rates = measure(4, torch.device("cpu"))
    assert min(rates.entries, rates.sweeps, rates.products, rates.factors) > 1e6
    assert rates.sweep(2000, 4, False) == pytest.approx(4 * rates.sweep(1000, 4, False))
    assert rates.factor(2000) == pytest.approx(8 * rates.factor(1000))
    assert rates.product(1000, True) == pytest.approx(rates.product(1000, False) + rates.assemble(1000))


def test_a_pass_grows_with_the_square_of_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp_studies.machine._seconds", lambda call, device: float(call().shape[1]))  # 1 s a point
    for dtype in (torch.float32, torch.float64):
        assert pass_seconds(20_000, 3, dtype, torch.device("cpu")) == pytest.approx(2000 * 100)


@pytest.mark.parametrize("name", ["uci", "era5-hyperparameters", "era5-means", "era5-timings", "era5-convergence"])
def test_paper_scale_tells_what_it_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study: Any = STUDIES[name]
    module = "era5_study" if name == "era5-convergence" else name.replace("-", "_")
    rates = Rates(entries=1e8, sweeps=1e10, products=1e9, factors=1e10)
    monkeypatch.setattr(f"cagp_studies.{module}.measure", lambda T, device: rates)
    forecasts = {}
    for scale in ("quick", "paper"):
        config = study.scales[scale]
        pieces = study.pieces(config)
        if study.name == "era5-means":  # its pieces are made from fitted priors
            config = dataclasses.replace(config, priors=_priors())
            pieces = study.pieces(config)
        forecasts[scale] = study.forecast(config, list(pieces.values()))
    assert forecasts["paper"].seconds > 2 * forecasts["quick"].seconds > 0
    assert min(forecast.memory for forecast in forecasts.values()) > 1e6


def _priors() -> tuple[object, ...]:
    from cagp_studies.era5_hyperparameters import KNOWN

    return (KNOWN, dataclasses.replace(KNOWN, mean="detrended"))


def test_every_study_has_a_tiny_one(data_folder: Path) -> None:
    from tiny import all_tiny

    assert set(all_tiny()) == set(STUDIES) >= set(on_real_data())
