"""Random problems, each from its seed alone: no crash, no NaN, no negative variance, no undocumented exception.

A few of each kind here, many in the slow tests; ``python tests/hard/run.py KIND SEED 1`` repeats a single one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cagp
from hard import run
from hard.laws import lawful
from hard.run import PROBLEMS

FEW = {"condition": 40, "fields": 15, "transformed": 8, "saved": 8, "command": 3, "questions": 8, "symmetric": 8}
FEW |= {"hostile": 20, "damaged": 12}
MANY = {"condition": 600, "fields": 400, "transformed": 200, "saved": 150, "command": 60, "front": 25, "memory": 6}
MANY |= {"questions": 200, "symmetric": 200, "maps": 60, "trends": 25, "quantities": 15, "shards": 15, "frames": 25}
MANY |= {"hostile": 600, "damaged": 300, "budget": 2}
"""What a change has to pass; ``run.py`` takes as many as one has time for."""


@pytest.mark.parametrize("kind", FEW)
def test_a_few_problems(tmp_path: Path, kind: str) -> None:
    for seed in range(FEW[kind]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        lawful(PROBLEMS[kind], seed, folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROBLEMS)
def test_many_problems(tmp_path: Path, kind: str) -> None:
    failed = []
    for seed in range(MANY[kind]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            lawful(PROBLEMS[kind], seed, folder)
        except Exception as error:
            failed.append(f"python tests/hard/run.py {kind} {seed} 1  # {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


def test_runs_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cagp_studies")
    monkeypatch.setattr(run, "RECORD", tmp_path / "record.jsonl")
    monkeypatch.setattr(run, "PROBLEMS", {"odd": lambda seed, folder: f"even: {1 // (1 - seed % 2)}"})
    for first in ("4", "8"):
        monkeypatch.setattr("sys.argv", ["run.py", "odd", first, "3", "--record"])
        with pytest.raises(SystemExit):
            run.main()
    first, second = (json.loads(line) for line in run.RECORD.read_text(encoding="utf-8").splitlines())
    assert (first["kind"], first["first"], first["n"], first["failures"]) == ("odd", 4, 3, [5])
    assert first["version"] == cagp.__version__
    assert second["became"] == {"even: 1": 2}
