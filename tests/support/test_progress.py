"""Progress that is asked for is shown, with or without rich; where none is shown, errors do not speak of it."""

from __future__ import annotations

import logging
import sys
import traceback

import numpy as np
import pytest
import torch

import cagp
from cagp.support import progress

X = np.linspace(0, 1, 40)[:, None]
y = np.sin(6 * X[:, 0])
PRIOR = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("without_rich")
def test_progress_that_is_asked_for_is_shown_without_rich(capsys: pytest.CaptureFixture[str]) -> None:
    PRIOR.condition(X, y, cagp.GaussSeidel(2)).predict(X, progress=True, batch_size=5)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[-1] == "predict: 100%"
    assert 2 <= len(lines) <= 11
    assert all(line.startswith("predict: ") for line in lines)


@pytest.mark.usefixtures("without_rich")
def test_a_terminal_without_rich_has_one_line_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    PRIOR.condition(X, y, cagp.GaussSeidel(2)).predict(X, batch_size=5)
    err = capsys.readouterr().err
    assert "\n" not in err
    assert err.startswith("\rpredict: ")
    assert err.endswith("\r")


def test_no_progress_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    PRIOR.condition(X, y).predict(X, progress=False)
    PRIOR.condition(X, y).predict(X)  # standard error is no terminal here
    assert capsys.readouterr().err == ""


def test_errors_where_output_is_no_terminal_speak_of_themselves_alone() -> None:
    calls = []

    def values(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        calls.append(None)
        if len(calls) > 4:
            raise ValueError("no such covariance")
        return torch.exp(-torch.cdist(A, B))

    model = cagp.Prior(cagp.CustomKernel(values), noise_variance=0.01).condition(X, y, "cholesky")
    calls.extend([None] * 4)
    with pytest.raises(ValueError, match="no such covariance") as caught:
        model.predict(X)
    assert "ImportError" not in "".join(traceback.format_exception(caught.value))


def test_long_work_without_a_terminal_is_logged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PRIOR.condition(X, y, cagp.GaussSeidel(2))
    with caplog.at_level(logging.INFO, logger="cagp"):
        model.predict(X, batch_size=5)
        assert not caplog.records  # it took no ten seconds
        monkeypatch.setattr(progress, "_EVERY", 0.0)
        model.predict(X, batch_size=20, progress=False)
        assert not caplog.records
        model.predict(X, batch_size=20)
    told = [record.getMessage() for record in caplog.records]
    assert [each.rpartition(" after ")[0] for each in told[:-1]] == [f"predict: {n}%" for n in (25, 50, 75, 100)]
    assert told[-1].startswith("predict: ended after ")
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert capsys.readouterr() == ("", "")


def test_candidates_of_a_fit_are_logged_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="cagp"):
        model = cagp.fit(X, y, kernel=cagp.Matern32(), uncertainty=False)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert len(told) >= len(model.candidates) > 1
    assert all(any(f"fit: {each.name}, CRPS " in line for line in told) for each in model.candidates)
