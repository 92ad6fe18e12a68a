"""Random problems, each from its seed alone: no crash, no NaN, no negative variance, no undocumented exception.

A few of each kind here, many in the slow tests; ``python tests/hard/run.py KIND SEED 1`` repeats a single one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hard.laws import lawful
from hard.run import PROBLEMS

FEW = {"condition": 40, "fields": 15, "transformed": 8, "saved": 8, "command": 3, "questions": 8, "symmetric": 8}
FEW |= {"hostile": 20, "damaged": 12}
MANY = {"condition": 600, "fields": 400, "transformed": 200, "saved": 150, "command": 60, "front": 25, "memory": 6}
MANY |= {"questions": 200, "symmetric": 200, "maps": 60, "trends": 25, "quantities": 15, "shards": 15, "frames": 25}
MANY |= {"hostile": 600, "damaged": 300}
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
