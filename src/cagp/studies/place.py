"""Where the large studies compute: on the GPU where there is one."""

from __future__ import annotations

import torch


def place() -> torch.device:
    """The GPU where there is one, else the processor."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
