"""Folders of several quantities: interrupted, out of space, or written by somebody who means no good."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cagp
from cagp.quantities import QuantitiesModel
from cagp.saving import folder as folders
from cagp.saving import several
from cagp.saving.folder import own_hash


def quantities() -> QuantitiesModel:
    X = np.linspace(0, 1, 5)[:, None]
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.1)
    return QuantitiesModel(("Cd", "Zn"), [prior.condition(X, y, "cholesky") for y in (X[:, 0], -X[:, 0])])


def test_ctrl_c_after_the_description_leaves_the_new_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = several.write_description

    def stopped(*given: Any) -> None:
        whole(*given)
        raise KeyboardInterrupt

    quantities().save(tmp_path / "model")
    monkeypatch.setattr(several, "write_description", stopped)
    with pytest.raises(KeyboardInterrupt):
        quantities().save(tmp_path / "model", overwrite=True)
    assert cagp.load(tmp_path / "model").predict([[0.5]]).mean.shape == (1, 2)
    monkeypatch.undo()
    quantities().save(tmp_path / "model", overwrite=True)
    assert len(list((tmp_path / "model").iterdir())) == 2


def test_a_full_disk_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folders, "_write_arrays", full)
    with pytest.raises(OSError, match="nothing was written") as found:
        quantities().save(tmp_path / "model")
    assert str(found.value).count("nothing was written") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("names", [[], ["Cd", "Cd"], ["Cd", "Zn", "Pb"], 3, None, {}])
def test_names_that_cannot_be_are_refused(tmp_path: Path, names: Any) -> None:
    path = quantities().save(tmp_path / "model") / "quantities.json"
    content = {**json.loads(path.read_text()), "names": names}
    del content["sha256"]
    path.write_text(json.dumps({**content, "sha256": own_hash(content)}))
    with pytest.raises(cagp.SavedModelError):
        cagp.load(tmp_path / "model")


def test_what_is_no_kernel_has_no_columns() -> None:
    with pytest.raises(cagp.InputError, match=r"wraps a kernel, got 3"):
        cagp.kernels.OnColumns(3, (0,))  # type: ignore[arg-type]
