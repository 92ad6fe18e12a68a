"""What all tests share: the data folder, and when GPU tests are skipped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data, from CAGP_DATA."""
    folder = os.environ.get("CAGP_DATA")
    if not folder:
        pytest.skip("set CAGP_DATA to the folder with the data sets to run this test")
    return Path(folder)
