"""Data in shards at the doors: ``cagp.fit``, and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp
from cagp.errors import InputError
from cagp.shards import ShardedModel, fit
from cagp.shards.fitting import _beside
from cli.small import call
from shards.test_shards import plane, table

parquet = pytest.importorskip("pyarrow.parquet")


def quick(*arguments: object) -> str:
    """What a command says that must not fail."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and a model of it in shards."""
    folder = tmp_path_factory.mktemp("doors")
    X, y = plane(2500)
    table(folder / "table", X, y)
    table(folder / "new", X[:50])
    found = cagp.fit(folder / "table", "z", kernel="matern32", varying=False, seconds=5, progress=False)
    assert isinstance(found, ShardedModel)
    found.save(folder / "model")
    return folder


def test_the_command_line_fits_and_predicts(place: Path) -> None:
    assert (place / "table-shards-z").is_dir()
    files = sorted(table(place / "files", *plane(2500)).glob("*.parquet"))
    options = ("--kernel", "Matern-32", "--no-varying", "--seconds", 5, "--exclude", "x1")
    said = quick("fit", *files, "--target", "z", "--out", place / "other", *options)
    assert "files-shards-z" in said
    # nothing beside them in their folder, which others read as a whole
    assert sorted((place / "files").iterdir()) == files
    other = cagp.load(place / "other")
    assert (other.store.features, other.target_name) == (("x0",), "z")
    asked = ("predict", place / "model", place / "new", "--observed", "--interval", 90, "--batch", 10)
    assert "Written" in quick(*asked)
    assert len(list((place / "new-predicted").glob("part-*"))) == 6  # two of each of three files with 17 rows or less
    found = parquet.read_table(place / "new-predicted")
    X, _ = plane(2500)
    wanted = cagp.load(place / "model").predict(X[:50]).observed()
    assert_allclose(found["upper_90"].to_numpy(), wanted.interval(0.9)[1], rtol=1e-10, atol=1e-12)
    assert "Written" in quick(*asked)
    assert "predictions come from the nearest of all" in quick("info", place / "model")


def test_some_files_of_a_folder_have_shards_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = sorted(table(tmp_path / "d", *plane(60)).glob("*.parquet"))
    how: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "varying": False, "recalibrate": False}
    how |= {"transform": None, "mixture": False, "uncertainty": False, "rotate": False, "progress": False, "n_jobs": 1}
    found = [fit(files, "z", **how).store for files in ([one], [two], tmp_path / "d")]
    assert [each.folder.name for each in found] == ["d-0-shards-z", "d-1-shards-z", "d-shards-z"]
    assert fit([str(one), str(two), str(three)], "z", **how).store == found[2]
    monkeypatch.chdir(tmp_path)
    assert fit("d", "z", **how).store == found[2]  # from wherever it is asked for
    names = {_beside(files, "z").name for files in ([one, two], [two, one], [one, three], [str(one), str(two)])}
    assert len(names) == 3
    one.unlink()
    with pytest.raises(InputError, match=r"choose another folder in Python: cagp\.shards\.fit\(…, store=FOLDER\)"):
        cagp.fit(tmp_path / "d", "z", **how)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "table", "--target", "z", "--out", "m", "--lengthscale", 1), "--lengthscale is not known"),
        (("fit", "table", "--target", "z", "--out", "new"), "other things in it"),
        (("fit", "table", "--target", "height", "--out", "m"), "no column 'height'"),
        (("fit", "table", "--target", "z", "--out", "m", "--exclude", "x9"), "--exclude: 'x9' is no column"),
        (("fit", "table-shards-z", "--target", "z", "--out", "m", "--exclude", "x1"), "is a store of the features"),
        (("predict", "model", "new", "--out", "p", "--solver", "cholesky"), "--solver is not known"),
        (("predict", "model", "new", "--out", "table"), "other things in it"),
        (("check", "model", "new"), "fit one to the observations around the places in question"),
        (("predict", "model", "new", "--out", "p", "--exceed", 1), "cagp.load(MODEL).predict(X).exceedance(50)"),
        (("predict", "model", "new", "--out", "p", "--drop-missing"), "leave them out of the files before"),
        (("predict", "model", "new.csv", "--out", "p"), "pandas.read_csv('new.csv').to_parquet('new.parquet')"),
        (("predict", "model", "nowhere", "--out", "p"), "does not exist"),
    ],
)
def test_the_command_line_refuses(arguments: tuple[object, ...], message: str, place: Path) -> None:
    names = {"table", "table-shards-z", "m", "new", "new.csv", "model", "p", "nowhere"}
    (place / "new.csv").write_text("x0,x1\n1,2\n")
    result = call(*(place / str(each) if each in names else each for each in arguments))
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_predictions_of_arrays_are_given_as_arrays(place: Path) -> None:
    X, _ = plane(2500)
    found = cagp.fit(
        place / "table-shards-z", None, kernel="matern12", varying=False, seconds=5, progress=False, n_jobs=1
    )
    assert np.asarray(found.predict(X[:7]).mean).shape == (7,)
    assert "matern12" in found.story
