"""Data in shards at the doors: ``cagp.fit``, and the command line."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp
from cagp.errors import InputError
from cagp.hyperparameters import optimise
from cagp.shards import ShardedModel, fit, writing
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
    asked = ("predict", place / "model", place / "new", "--observed", "--interval", 90, "--exceed", "0.5,1")
    asked += ("--batch", 10)
    assert "Written" in quick(*asked)
    assert len(list((place / "new-predicted").glob("part-*"))) == 6  # two of each of three files with 17 rows or less
    found = parquet.read_table(place / "new-predicted")
    X, _ = plane(2500)
    wanted = cagp.load(place / "model").predict(X[:50]).observed()
    assert_allclose(found["upper_90"].to_numpy(), wanted.interval(0.9)[1], rtol=1e-10, atol=1e-12)
    for name, threshold in (("exceeds_0.5", 0.5), ("exceeds_1", 1.0)):
        assert_allclose(found[name].to_numpy(), wanted.exceedance(threshold), rtol=1e-9, atol=1e-12)
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


def test_more_data_have_new_shards_and_older_models_keep_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "cagp")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    X, y = plane(90)
    source, new = table(tmp_path / "d", X[:60], y[:60]), table(tmp_path / "new", X[60:], y[60:], files=1)
    how: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "varying": False, "recalibrate": False}
    how |= {"transform": None, "mixture": False, "uncertainty": False, "rotate": False, "n_jobs": 1}
    old = fit(source, "z", **how)
    before = old.predict(X[:5]).mean
    (new / "0.parquet").rename(source / "new.parquet")
    for _ in range(2):  # the second one finds its own
        caplog.clear()
        grown = cagp.fit(source, "z", **how)
        assert isinstance(grown, ShardedModel)
        assert grown.store.folder.name == "d-shards-z-2"
        assert grown.size == old.size + len(y[60:])
        said = " ".join(record.getMessage() for record in caplog.records)
        assert "d-shards-z has shards of other data or other columns, or of data that have changed, and stays" in said
    assert fit(source, "z", features=["x0"], **how).store.folder.name == "d-shards-z-3"
    np.testing.assert_array_equal(old.predict(X[:5]).mean, before)
    with pytest.raises(InputError, match="or choose another folder: store=FOLDER"):  # where that was named
        fit(source, "z", store=tmp_path / "d-shards-z", **how)


def test_ctrl_c_in_the_search_keeps_the_best_and_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, evaluate, runs = table(tmp_path / "d", *plane(200)), optimise._Run.evaluate, list[int]()

    def interrupted(run: optimise._Run, at: np.ndarray) -> Any:
        runs.append(len(run.trace))
        if len(runs) == 3:
            signal.raise_signal(signal.SIGINT)
        return evaluate(run, at)

    monkeypatch.setattr(optimise._Run, "evaluate", interrupted)
    asked = ("fit", source, "--target", "z", "--out", tmp_path / "m", "--kernel", "matern32", "--no-varying")
    result = call(*asked)
    assert result.exit_code == 130, result.output
    said = " ".join(result.stderr.split())
    assert "best model so far" in said
    assert "with --overwrite the same command takes the shards that are there, and searches anew" in said
    assert cagp.load(tmp_path / "m").interrupted
    before = [each.stat().st_mtime_ns for each in (tmp_path / "d-shards-z" / "tiles").iterdir()]
    quick(*asked, "--overwrite", "--seconds", 1)
    assert [each.stat().st_mtime_ns for each in (tmp_path / "d-shards-z" / "tiles").iterdir()] == before
    assert not cagp.load(tmp_path / "m").interrupted


def test_ctrl_c_while_shards_are_made_keeps_those_that_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, gather = table(tmp_path / "d", *plane(200)), writing._gather

    def interrupted(*arguments: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return gather(*arguments)

    monkeypatch.setattr(writing, "_gather", interrupted)
    asked = ("fit", source, "--target", "z", "--out", tmp_path / "m", "--kernel", "matern32", "--no-varying")
    result = call(*asked, "--seconds", 1)
    assert result.exit_code == 130, result.output
    assert "no model is written, and the same command goes on" in " ".join(result.stderr.split())
    assert not (tmp_path / "m").exists()
    monkeypatch.undo()
    quick(*asked, "--seconds", 1)


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
        (("predict", "model", "new", "--out", "p", "--exceed", "much"), "--exceed must be one threshold"),
        (("predict", "model", "new", "--out", "one.csv"), "folder of Parquet files, which readers"),
        (("predict", "model", "new", "--out", "p", "--drop-missing"), "leave them out of the files before"),
        (("predict", "model", "new.csv", "--out", "p"), "pandas.read_csv('new.csv').to_parquet('new.parquet')"),
        (("predict", "model", "nowhere", "--out", "p"), "does not exist"),
    ],
)
def test_the_command_line_refuses(arguments: tuple[object, ...], message: str, place: Path) -> None:
    names = {"table", "table-shards-z", "m", "new", "new.csv", "model", "p", "nowhere", "one.csv"}
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
