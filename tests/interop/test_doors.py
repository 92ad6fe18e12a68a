"""The package of doors itself: its names, and what it says where a library is missing."""

from __future__ import annotations

import importlib
import sys

import pytest

import cagp.interop


@pytest.mark.parametrize(("library", "name"), [("gpytorch", "from_gpytorch"), ("xarray", "register_xarray")])
def test_missing_library(library: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for module in [module for module in sys.modules if module.startswith(f"cagp.interop.{library}")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=rf"pip install 'cagp\[{library}\]'"):
        getattr(cagp.interop, name)


def test_names() -> None:
    for name in dir(cagp.interop):
        assert getattr(cagp.interop, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cagp.interop.nothing  # noqa: B018
    assert importlib.import_module("cagp.interop.xarray").register_xarray is cagp.interop.register_xarray
