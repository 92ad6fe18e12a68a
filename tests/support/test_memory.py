"""How much memory is free: that of the machine, or what a container leaves of it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import torch

from cagp.support.memory import available_bytes

CPU = torch.device("cpu")


def container(folder: Path, limit: str, used: int, cached: int) -> None:
    """The files of a container: control groups, version 2."""
    for name, content in {
        "memory.max": limit,
        "memory.current": used,
        "memory.stat": f"anon {used - cached}\nactive_file {cached // 4}\ninactive_file {cached - cached // 4}",
    }.items():
        (folder / name).write_text(f"{content}\n")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("cagp.support.memory._CONTROL_GROUP", tmp_path)
    return tmp_path


def test_without_a_container_it_is_what_the_system_has_available(groups: Path) -> None:
    free = psutil.virtual_memory()
    assert 0 < available_bytes(CPU) <= free.total
    container(groups, "max", 1000, 500)
    assert 0 < available_bytes(CPU) <= free.total


def test_files_that_were_read_do_not_count_as_used(groups: Path) -> None:
    """The system gives the memory of cached files back to whoever needs it."""
    container(groups, str(400 * 2**20), used=390 * 2**20, cached=360 * 2**20)
    assert available_bytes(CPU) == 370 * 2**20
    container(groups, str(400 * 2**20), used=410 * 2**20, cached=0)
    assert available_bytes(CPU) == 0


def test_the_older_kind_of_container(groups: Path) -> None:
    (groups / "memory").mkdir()
    for name, content in {
        "memory.limit_in_bytes": 400 * 2**20,
        "memory.usage_in_bytes": 390 * 2**20,
        "memory.stat": f"cache 1\ntotal_inactive_file {200 * 2**20}\ntotal_active_file {100 * 2**20}",
    }.items():
        (groups / "memory" / name).write_text(f"{content}\n")
    assert available_bytes(CPU) == 310 * 2**20


def test_files_that_make_no_sense_are_left_alone(groups: Path) -> None:
    (groups / "memory.max").write_text("plenty")
    (groups / "memory.current").write_text("")
    assert available_bytes(CPU) > 0
