"""``cagp design``: the choices and promises are those of the library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cagp import saving
from cagp.tables import read_table, write_table
from cagp.transforms import Log
from cli.small import VALUES, call, write_small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, candidates with costs, and a region with weights."""
    place, rng = tmp_path_factory.mktemp("design"), np.random.default_rng(3)
    write_small(place / "train.csv", 60)
    arguments = ["fit", place / "train.csv", "--target", "height", "--out", place / "model", *VALUES, "--no-report"]
    assert call(*arguments).exit_code == 0
    sites = {"east": rng.random(30), "north": rng.random(30), "price": rng.uniform(1, 5, 30)}
    write_table(place / "sites.csv", sites | {"noise": rng.uniform(0.01, 0.1, 30)})
    write_table(place / "region.csv", {"north": rng.random(20), "east": rng.random(20), "people": rng.random(20)})
    return place


def test_numbers_are_those_of_the_library(folder: Path, tmp_path: Path) -> None:
    options = ["--region", folder / "region.csv", "--weights", "people", "--costs", "price", "--noise-column", "noise"]
    out = tmp_path / "next.csv"
    result = call("design", folder / "model", folder / "sites.csv", "--n", 4, "--out", out, *options)
    assert result.exit_code == 0, result.output
    assert "4 of 30 candidates for a region of 20 places" in result.output
    sites, region, table = (read_table(each) for each in (folder / "sites.csv", folder / "region.csv", out))
    found = saving.load(folder / "model").where_next(
        sites.matrix(("east", "north")),
        4,
        region=region.matrix(("east", "north")),
        weights=region.columns["people"],
        costs=sites.columns["price"],
        noise_variance=sites.columns["noise"],
    )
    np.testing.assert_array_equal(table.columns["row"], found.chosen + 1)
    np.testing.assert_array_equal(table.columns["rank"], [1, 2, 3, 4])
    np.testing.assert_array_equal(table.columns["east"], sites.columns["east"][found.chosen])
    np.testing.assert_allclose(table.columns["average_variance"], found.average_variance[1:], rtol=1e-8)
    again = call("design", folder / "model", folder / "sites.csv", "--n", 4, "--out", out)
    assert again.exit_code == 2  # it is there already


def test_candidates_are_the_region_where_none_is_given(folder: Path, tmp_path: Path) -> None:
    arguments = ["design", folder / "model", folder / "sites.csv", "--n", 2, "--out", tmp_path / "next.parquet"]
    assert call(*arguments, "--quiet").output == ""
    sites, model = read_table(folder / "sites.csv"), saving.load(folder / "model")
    X = sites.matrix(("east", "north"))
    written = read_table(tmp_path / "next.parquet").columns
    np.testing.assert_array_equal(written["row"], model.where_next(X, 2).chosen + 1)
    assert call(*arguments, "--overwrite", "--weights", "price").exit_code == 0
    weighted = read_table(tmp_path / "next.parquet").columns["average_variance"]
    expected = model.where_next(X, 2, weights=sites.columns["price"]).average_variance[1:]
    np.testing.assert_allclose(weighted, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--n", 31], "n=31 of 30 candidates"), (["--n", 1, "--costs", "prise"], "no column 'prise'")],
)
def test_refused(folder: Path, tmp_path: Path, options: list[object], words: str) -> None:
    result = call("design", folder / "model", folder / "sites.csv", "--out", tmp_path / "o.csv", *options)
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("name", ["rank", "row", "average_variance"])
def test_a_column_of_the_table_is_not_overwritten(folder: Path, tmp_path: Path, name: str) -> None:
    sites = read_table(folder / "sites.csv").columns
    write_table(tmp_path / "sites.csv", {**{each: sites[each] for each in ("east", "north")}, name: sites["price"]})
    arguments = ["--n", 2, "--out", tmp_path / "o.csv", "--costs", name]
    result = call("design", folder / "model", tmp_path / "sites.csv", *arguments)
    assert result.exit_code == 2
    assert f"the column {name!r} of" in " ".join(result.output.split())


def test_variances_of_a_transformed_target_say_their_scale(folder: Path, tmp_path: Path) -> None:
    arguments = [tmp_path / "model", folder / "sites.csv", "--n", 2, "--overwrite", "--out", tmp_path / "next.csv"]
    model, about = saving.load(folder / "model"), saving.About(features=["east", "north"], target="height")
    for transform, said in ((Log(), "over the region, on the transformed scale: "), (None, "over the region: ")):
        model.replace(transform=transform).save(tmp_path / "model", about=about, overwrite=True)
        result = call("design", *arguments)
        assert result.exit_code == 0, result.output
        assert said in " ".join(result.output.split())
