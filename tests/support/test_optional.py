"""A missing package is named, with the way to get it."""

from __future__ import annotations

import pytest

from cagp.support.advice import optional


def test_missing_package_is_named():
    with pytest.raises(ImportError, match=r'dancing needs no_such_package: pip install "cagp\[calibration\]"'):
        optional("no_such_package.inner", "dancing", "calibration")
