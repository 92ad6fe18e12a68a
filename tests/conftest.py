"""What all tests share: threads, environment, seeds, profiles of Hypothesis, the data folder, and what is skipped."""

from __future__ import annotations

import base64
import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

if "PYTEST_XDIST_WORKER" in os.environ:  # the processes share the cores; read when torch and numpy are imported
    os.environ.setdefault("OMP_NUM_THREADS", "1")
for name in ("CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
    os.environ.pop(name, None)  # they colour what the command line prints, or break its lines elsewhere

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

if not torch.cuda.is_available():  # before anybody imports Triton, which reads it then
    os.environ["TRITON_INTERPRET"] = "1"

import cagp.choosing.options  # noqa: E402

# what cagp.fit finds in its default time depends on how busy the machine is; tests/choosing/test_seconds.py is about it
cagp.choosing.options._SECONDS = 3600.0

settings.register_profile("default", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """GPU tests run where there is one, tests that take minutes only when they are asked for."""
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("slow") and "slow" not in config.getoption("markexpr"):
            item.add_marker(pytest.mark.skip(reason="takes long; make test-all runs it, or -m slow"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same global random numbers in every test, whatever ran before: weights that torch draws, for example."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)


@pytest.fixture
def garbage_collected() -> Iterator[None]:
    """What a test leaves is cleaned up while it is responsible, and not in whichever test the collector awakes."""
    yield
    gc.collect()


@pytest.fixture
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are put together and not drawn, for tests of what a page says: drawing is most of the time it takes."""
    from matplotlib.figure import Figure

    def savefig(self: Figure, file: IO[bytes], **options: object) -> None:
        file.write(base64.b64decode(DOT))

    monkeypatch.setattr(Figure, "savefig", savefig)


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
"""A PNG file of one pixel."""


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data, from CAGP_DATA."""
    folder = os.environ.get("CAGP_DATA")
    if not folder:
        pytest.skip("set CAGP_DATA to the folder with the data sets to run this test")
    return Path(folder)
