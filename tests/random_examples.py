"""How many examples Hypothesis tries; ``conftest.py`` has its profiles."""

from __future__ import annotations

import os

from hypothesis import settings

_TIMES = 10 if os.environ.get("HYPOTHESIS_PROFILE") == "random" else 1


def examples(n: int) -> settings:
    """``n`` examples, ten times as many in the profile "random"."""
    return settings(max_examples=_TIMES * n)
