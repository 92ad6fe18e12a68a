"""Pieces are kept, used again when and only when nothing that decides them has changed, and give the same tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import cagp
from cagp import InputError
from cagp.support.atomic_files import write_atomically
from cagp_studies import run_study
from cagp_studies.report import Record, load_all
from tiny import SquareConfig, Squares, TinySbc, drawn_once


def table(out: Path, name: str = "squares") -> pd.DataFrame:
    return pd.read_csv(out / name / "table.csv")


def results(power: int) -> object:
    return pytest.approx([(i + 0.1) ** power for i in range(4)], rel=1e-14)


def test_files_of_a_study(tmp_path: Path) -> None:
    record = run_study(Squares(), tmp_path, seed=3)
    assert {path.name for path in (tmp_path / "squares").iterdir()} == {
        "table.csv", "curve.png", "curve.pdf", "study.json", "pieces",
    }  # fmt: skip
    assert table(tmp_path)["result"].tolist() == results(2)
    assert table(tmp_path)["seed"].tolist() == [3] * 4
    assert record == Record.load(tmp_path / "squares")
    assert record.environments[0]["cagp"] == cagp.__version__
    assert (tmp_path / "squares" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "squares" / "curve.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("failure", [RuntimeError("the machine fell over"), KeyboardInterrupt()])
def test_continues_where_it_stopped(tmp_path: Path, failure: BaseException) -> None:
    study = Squares()
    study.fails_at, study.failure = 2, failure
    with pytest.raises(type(failure)) as caught:
        run_study(study, tmp_path)
    if isinstance(failure, RuntimeError):
        assert "'number-2'" in caught.value.__notes__[0]
    assert study.computed == [0, 1]
    assert load_all(tmp_path) == []  # what is not finished is not reported

    again = Squares()
    run_study(again, tmp_path)
    assert again.computed == [2, 3]
    assert table(tmp_path)["number"].tolist() == [0, 1, 2, 3]

    once_more = Squares()
    run_study(once_more, tmp_path)
    assert once_more.computed == []


def test_killed_process_keeps_its_pieces(tmp_path: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from tiny import Squares
from cagp_studies import run_study

class Killed(Squares):
    def run(self, config, piece, seed):
        if piece.number == 3:
            os._exit(9)  # no clean-up of any kind
        return super().run(config, piece, seed)

run_study(Killed(), Path({str(tmp_path)!r}))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    study = Squares()
    run_study(study, tmp_path)
    assert study.computed == [3]


@pytest.mark.parametrize("change", ["seed", "configuration", "revision", "version", "damage", "foreign"])
def test_stale_pieces_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    run_study(Squares(), tmp_path)
    study, seed, expected = Squares(), 0, [0, 1, 2, 3]
    pieces = sorted((tmp_path / "squares" / "pieces").rglob("*.json"))
    if change == "seed":
        seed = 1
    elif change == "configuration":
        monkeypatch.setattr(Squares, "scales", {"quick": SquareConfig(power=3)})
    elif change == "revision":
        monkeypatch.setattr(Squares, "revision", 2)
    elif change == "version":
        monkeypatch.setattr(cagp, "__version__", "999")
    elif change == "damage":
        pieces[1].write_text(pieces[1].read_text()[:50])
        expected = [1]
    else:  # a file that got there by a hash that begins with the same digits, or by hand
        pieces[2].write_text(pieces[2].read_text().replace('"fingerprint": "', '"fingerprint": "0'))
        expected = [2]
    run_study(study, tmp_path, seed=seed)
    assert study.computed == expected
    power = 3 if change == "configuration" else 2
    assert table(tmp_path)["result"].tolist() == results(power)
    assert set(table(tmp_path)["seed"]) == {seed}


def test_scales_do_not_disturb_each_other(tmp_path: Path) -> None:
    for scale, numbers in (("quick", 4), ("paper", 6), ("quick", 4)):
        study = Squares()
        run_study(study, tmp_path, scale=scale)
        assert len(table(tmp_path)) == numbers
    assert study.computed == []


def test_processes_give_the_same_numbers(tmp_path: Path) -> None:
    study = TinySbc()
    with drawn_once():
        run_study(study, tmp_path, jobs=2)
    config = study.scales["quick"]
    here = pd.concat([study.run(config, piece, 0)["table"] for piece in study.pieces(config).values()])
    there = table(tmp_path, "sbc").drop(columns="seconds")
    pd.testing.assert_frame_equal(here.drop(columns="seconds").reset_index(drop=True), there, rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"scale": "huge"}, "'quick', 'paper'"), ({"seed": -1}, "seed"), ({"jobs": 0}, "jobs")],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, object], words: str) -> None:
    study = Squares()
    with pytest.raises(InputError, match=words):
        run_study(study, tmp_path, **arguments)  # type: ignore[arg-type]
    assert study.computed == []


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder" / "file"
    write_atomically(path, b"old")

    def full_disk(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("cagp.support.atomic_files.os.fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_damaged_record(tmp_path: Path) -> None:
    run_study(Squares(), tmp_path)
    (tmp_path / "squares" / "study.json").write_text("{")
    with pytest.raises(InputError, match=r"study\.json cannot be read .*`cagp reproduce squares` again"):
        load_all(tmp_path)
