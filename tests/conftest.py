"""What all tests share: the data folder, and when GPU tests are skipped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

if not torch.cuda.is_available():  # before anybody imports Triton, which reads it then
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """GPU tests run where there is one, studies that take minutes only when they are asked for."""
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("slow") and "slow" not in config.getoption("markexpr"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; run it with -m slow"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data, from CAGP_DATA."""
    folder = os.environ.get("CAGP_DATA")
    if not folder:
        pytest.skip("set CAGP_DATA to the folder with the data sets to run this test")
    return Path(folder)
