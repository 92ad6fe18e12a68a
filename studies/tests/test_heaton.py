"""The study of the competition: test values out of reach, scores and tables as they should be, files of all kinds."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import norm

import cagp
from cagp.datasets import DataError
from cagp_studies import Record, heaton_data, run_study
from cagp_studies.heaton import Heaton, HeatonConfig, fit_and_predict
from cagp_studies.heaton_data import SATELLITE, SIMULATED, Given, load, read_field, satellite_file
from cagp_studies.heaton_figures import binned
from cagp_studies.heaton_results import PUBLISHED
from cagp_studies.heaton_scores import scores_of
from tiny import both


class Tiny(Heaton):
    """So few points that a fit takes a second."""

    scales = both(HeatonConfig(every=2))  # type: ignore[assignment]


def competition(seed: int = 0) -> pd.DataFrame:
    """A table like those of the competition: a smooth field on a grid, 20 × 12, with a gap and a place nobody knows."""
    rng = np.random.default_rng(seed)
    longitude, latitude = np.meshgrid(np.linspace(-95.9, -91.3, 20), np.linspace(34.3, 37.1, 12))
    truth = 40 + 3 * np.sin(longitude) + 2 * np.cos(2 * latitude) + 0.01 * rng.normal(size=longitude.shape)
    seen = truth.copy()
    seen[3:8, 5:11] = np.nan
    truth[6, 8] = np.nan
    columns = {"Lon": longitude, "Lat": latitude, "MaskTemp": seen, "TrueTemp": truth}
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()})


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder and a cache of the test's own; no file of the machine is found."""
    monkeypatch.setenv("CAGP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CAGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(heaton_data.ENVIRONMENT, raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


# --- the study --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """A finished study of two fields: they are the same but for what the second file says in the gaps."""

    record: Record
    tables: dict[str, pd.DataFrame]

    def gaps(self, name: str) -> pd.DataFrame:
        """The predictions of that field."""
        rows = self.tables["gaps"]
        return rows[rows["data"] == name].drop(columns="data").reset_index(drop=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    data, out = (tmp_path_factory.mktemp(name) for name in ("data", "out"))
    table = competition(seed=1)  # one model predicts alone here, which is quick
    table.to_csv(data / "AllSimulatedTemps.csv", index=False)
    masked = table.index[table["MaskTemp"].isna()]
    table.loc[masked, "TrueTemp"] = 1e3 * np.random.default_rng(1).normal(size=len(masked))
    table.loc[masked[::5], "TrueTemp"] = np.nan
    table.to_csv(data / "AllSatelliteTemps.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAGP_DATA", str(data))
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # threads that wait for each other are slow on problems this small
        patch.setattr("cagp_studies.runner._save_figure", lambda *arguments: None)  # what takes the time
        record = run_study(Tiny(), out)
    return Made(record, {path.stem: pd.read_csv(path) for path in (out / "heaton").glob("*.csv")})


def test_no_test_value_can_be_reached(made: Made) -> None:
    """The fit gets an object that has none, and predicts the same whatever the file says in the gaps."""
    assert list(inspect.signature(fit_and_predict).parameters) == ["given", "seed"]
    assert [field.name for field in dataclasses.fields(Given)] == ["X", "y", "gaps"]
    first, second = made.gaps(SIMULATED), made.gaps(SATELLITE)
    assert not np.isclose(first["truth"], second["truth"]).any()
    pd.testing.assert_frame_equal(first.drop(columns="truth"), second.drop(columns="truth"))
    rmse = made.tables["table"].set_index("data")["rmse"]
    assert rmse[SIMULATED] < 1 < 100 < rmse[SATELLITE]  # which the scores do notice


def test_the_tables(made: Made) -> None:
    comparisons, facts = made.record.comparisons, made.tables["table"]
    assert list(facts["data"]) == [SIMULATED, SATELLITE]
    assert len(comparisons) == 6
    assert all(len(row) == len(each.columns) for each in comparisons for row in each.rows)
    scores, tried, model = comparisons[:3]
    assert scores.caption.startswith("NOT THE COMPETITION: one row and column in 2")
    by_method = {row[0]: row for row in scores.rows}
    [ours] = (method for method in by_method if "QUICK" in method)
    assert set(by_method) == {ours, "kriging with the true parameters", *(row[0] for row in PUBLISHED[SIMULATED])}
    assert all("published" in row[-1] or "measured here" in row[-1] for row in scores.rows)
    assert by_method[ours][2] == f"{facts['rmse'][0]:.3f}"
    assert by_method[ours][-1] == "measured here on 1 core"
    assert "matern32, constant" in {row[0] for row in tried.rows}
    assert model.rows[-1][0] == "the truth"
    assert not any("the truth" in row for row in comparisons[5].rows)  # of the satellite nobody knows it
    words = " ".join(made.record.remarks)
    assert words.startswith("QUICK")
    assert "were not found" not in words
    assert "nan" not in words.lower().split()


def test_the_figures_say_what_they_show(made: Made) -> None:
    captions = made.record.figures
    kinds = ("fields", "errors", "coverage", "stages")
    assert set(captions) == {f"{kind}_{data}" for kind in kinds for data in (SIMULATED, SATELLITE)}
    assert all("QUICK" in captions[f"{kind}_{SIMULATED}"] for kind in kinds)
    groups = binned(made.gaps(SIMULATED))
    assert groups["points"].sum() == made.tables["table"]["scored"][0]
    assert groups["distance"].is_monotonic_increasing


def test_the_scores(made: Made) -> None:
    """Again from the predictions that were written down, by formulas of our own."""
    facts, gaps = made.tables["table"].iloc[0], made.gaps(SIMULATED).dropna()
    assert (facts.scored, facts.gaps) == (len(gaps), len(gaps) + 1)
    error = gaps["truth"] - gaps["mean"]
    assert facts.mae == pytest.approx(error.abs().mean(), abs=1e-3)
    assert facts.rmse == pytest.approx(np.sqrt((error**2).mean()), abs=1e-3)
    low, high = gaps["lower_95"], gaps["upper_95"]
    below, above = (low - gaps["truth"]).clip(lower=0), (gaps["truth"] - high).clip(lower=0)
    assert facts.interval_score == pytest.approx((high - low + 40 * (below + above)).mean(), abs=1e-2)
    assert facts.holds_95 == pytest.approx(((below + above) == 0).mean())
    z = error / gaps["std"]
    crps = gaps["std"] * (z * (2 * ndtr(z) - 1) + 2 * norm.pdf(z) - np.sqrt(1 / np.pi))
    assert facts.normal_crps == pytest.approx(crps.mean(), abs=1e-3)


def test_another_file_is_another_piece(own_folder: Path) -> None:
    assert list(Tiny().pieces(HeatonConfig(1))) == [SIMULATED]
    names = []
    for seed in (0, 1):
        competition(seed).to_csv(own_folder / "AllSatelliteTemps.csv", index=False)
        names += list(Tiny().pieces(HeatonConfig(1)))
    assert len(set(names)) == 3


def test_scores_where_the_truth_is_known() -> None:
    """Of a prediction that is not normal, at some places: those of the same prediction at these places alone."""
    rng = np.random.default_rng(0)
    X, y, test = rng.random((30, 2)), rng.normal(size=30), rng.random((8, 2))
    models = [cagp.Prior(cagp.Matern32(length), noise_variance=0.1).condition(X, y) for length in (0.2, 1.0)]
    mixture = cagp.Model([model.components[0] for model in models], [0.6, 0.4])
    truth = rng.normal(size=8)
    truth[[2, 5]] = np.nan
    known = np.isfinite(truth)
    found = scores_of(mixture.predict(test).observed(), truth)
    expected = scores_of(mixture.predict(test[known]).observed(), truth[known])
    assert found == pytest.approx(expected, rel=1e-9)
    normal = models[0].predict(test).observed()
    assert normal.is_normal
    alone = scores_of(normal, truth)
    assert alone["crps"] == alone["normal_crps"]
    assert alone["scored"] == 6


# --- files ------------------------------------------------------------------------------------------------------------


def write(table: pd.DataFrame, path: Path) -> None:
    name = path.name.lower()
    if name.endswith(".parquet"):
        table.to_parquet(path)
    elif name.endswith((".rdata", ".rda")):
        rdata = pytest.importorskip("rdata", reason="needs rdata: pip install 'cagp-studies[r]'")
        rdata.write_rda(path, {"all.sat.temps": table})
    else:
        table.to_csv(path, na_rep="NA")  # with the row names in a first column, as R and pandas write them


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".RData", ".rda"])
def test_files_of_all_kinds(own_folder: Path, ending: str) -> None:
    table = competition()
    path = own_folder / f"AllSatelliteTemps{ending}"
    write(table, path)
    assert satellite_file() == path
    field = load(SATELLITE)
    masked = table["MaskTemp"].isna().to_numpy()
    places = table[["Lon", "Lat"]].to_numpy()
    np.testing.assert_allclose(field.given.X, places[~masked], rtol=1e-12)
    np.testing.assert_allclose(field.given.y, table["MaskTemp"].to_numpy()[~masked], rtol=1e-12)
    np.testing.assert_allclose(field.given.gaps, places[masked], rtol=1e-12)
    np.testing.assert_allclose(field.truth, table["TrueTemp"].to_numpy()[masked], rtol=1e-12)
    assert field.whole
    every = field.thinned(3)
    assert not every.whole
    assert len(every.given.y) + len(every.given.gaps) == 7 * 4
    assert len(every.truth) == len(every.given.gaps)


def test_the_file_under_its_short_name(own_folder: Path) -> None:
    competition().to_csv(own_folder / "heaton_satellite.csv.gz", index=False)
    assert satellite_file() == own_folder / "heaton_satellite.csv.gz"


def test_a_named_file(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert satellite_file() is None
    with pytest.raises(DataError, match=r"AllSatelliteTemps\.RData .*CAGP_DATA, or name the file in CAGP_SATELLITE"):
        load(SATELLITE)
    elsewhere = own_folder.parent / "mine.csv"
    monkeypatch.setenv(heaton_data.ENVIRONMENT, str(elsewhere))
    with pytest.raises(DataError, match="is not a file"):
        satellite_file()
    competition().to_csv(elsewhere)
    assert load(SATELLITE).path == elsewhere


def test_without_the_reader_of_r_files(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdata", None)
    path = own_folder / "AllSatelliteTemps.RData"
    path.write_bytes(b"RDX3\n")
    with pytest.raises(ImportError, match=r"needs rdata: pip install 'cagp-studies\[r\]', or save the table as \.csv"):
        Tiny().pieces(HeatonConfig(1))  # before the other field is computed


def test_files_that_cannot_be_used(own_folder: Path) -> None:
    table = competition()

    def refused(changed: pd.DataFrame, words: str) -> None:
        changed.to_csv(own_folder / "bad.csv", index=False)
        with pytest.raises(DataError, match=words):
            read_field(own_folder / "bad.csv", SATELLITE)

    refused(table.rename(columns={"MaskTemp": "Temp"}), r"no column MaskTemp; .*this one Lon, Lat, Temp, TrueTemp")
    refused(table.assign(MaskTemp=1.0), "no gap in MaskTemp")
    refused(table.assign(MaskTemp=np.nan), "no temperature in MaskTemp")
    refused(table.assign(Lat=table["Lat"].where(table.index != 2)), "row 3 has no Lon or Lat")
    refused(table.assign(Lon="west"), "must be numbers")
    (own_folder / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read"):
        read_field(own_folder / "bad.parquet", SATELLITE)
    with pytest.raises(DataError, match="none of the files that can be read"):
        read_field(own_folder / "bad.xlsx", SATELLITE)


def test_the_simulated_field_of_the_competition(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAGP_DATA", str(data_folder))
    field = load(SIMULATED)
    assert (len(field.given.y), len(field.given.gaps)) == (105_569, 44_431)
    quick = field.thinned(Heaton.scales["quick"].every)
    assert (len(quick.given.y), len(quick.given.gaps)) == (6634, 2741)
    assert Heaton.scales["paper"].every == 1


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_the_numbers_of_the_run() -> None:
    docs = Path(__file__).parents[2] / "docs"
    spec = importlib.util.spec_from_file_location("make_competition", docs / "make_competition.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    page, found = maker.PAGE.read_text(encoding="utf-8"), json.loads(maker.RESULTS.read_text(encoding="utf-8"))
    assert maker.refreshed(page, found) == page, "python docs/make_competition.py --page writes it anew"
    assert found["fields"][SIMULATED]["facts"]["every"] == 1
    assert all(f"figures/competition-{name}.png" in page for name in maker.DRAWN)
    # with a row of our own for the satellite image, too
    found["fields"][SATELLITE] = found["fields"][SIMULATED]
    assert "We have no row of our own" not in maker.satellite(found)
    assert "**cagp.fit**" in maker.satellite(found)
