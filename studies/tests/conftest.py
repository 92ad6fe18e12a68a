"""What the tests of the studies share: the data folder, and that slow ones run only when they are asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# studies are compared with the dense algebra that the tests of cagp have
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Studies that take minutes run only when they are asked for."""
    for item in items:
        if item.get_closest_marker("slow") and "slow" not in config.getoption("markexpr"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; run it with -m slow"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data, from CAGP_DATA."""
    folder = os.environ.get("CAGP_DATA")
    if not folder:
        pytest.skip("set CAGP_DATA to the folder with the data sets to run this test")
    return Path(folder)
