"""The tests of the studies share with those of cagp what these share among themselves, and their dense algebra."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("cagp_conftest", Path(__file__).parents[2] / "tests" / "conftest.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_SHARED = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_SHARED)  # which also puts its folder on the path
globals().update({name: value for name, value in vars(_SHARED).items() if not name.startswith("_")})
