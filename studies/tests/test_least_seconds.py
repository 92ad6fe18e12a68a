"""The least of several times, and the first does not count; by a clock that says what the test wants."""

from __future__ import annotations

import pytest
import torch

from cagp_studies.machine import least_seconds


@pytest.mark.parametrize(("taken", "least"), [([9.0, 3.0, 2.0, 4.0], 2.0), ([1.0, 3.0, 5.0], 3.0), ([5.0, 7.0], 7.0)])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_least_after_the_first(
    taken: list[float], least: float, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waited, still = [0.0], [], iter(taken)

    def work() -> None:
        now[0] += next(still)

    def wait(device: torch.device) -> None:
        waited.append(device)
        now[0] += 0.5  # what a GPU still does after the call has returned

    monkeypatch.setattr("cagp_studies.machine.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    found = least_seconds(work, torch.device(device), repeats=len(taken) - 1)
    assert next(still, None) is None  # as many calls as were asked for, and one
    assert found == pytest.approx(least + (0.5 if device == "cuda" else 0.0))
    assert len(waited) == (len(taken) if device == "cuda" else 0)
