"""What several tests of hard use need."""

from __future__ import annotations

from functools import partial

import pytest

from cagp.shards import fitting, sharded
from cagp.shards.writing import write


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are many tiles, and many files of predictions."""
    monkeypatch.setattr(fitting, "write", partial(write, tile=60, block=20))
    monkeypatch.setattr(sharded, "_PIECE", 40)
