"""Model folders that version 0.2.0 wrote, beside what it predicted with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp
from cagp import saving

FOLDERS = Path(__file__).parent / "folders_of_0.2"
NAMES = sorted(path.stem for path in FOLDERS.glob("*.json"))


def test_all_kinds_are_there() -> None:
    assert len(NAMES) == 11
    assert all((FOLDERS / name / "model.json").exists() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_they_predict_what_they_predicted(name: str, tmp_path: Path) -> None:
    wanted = json.loads((FOLDERS / f"{name}.json").read_text(encoding="utf-8"))
    rtol = 1e-5 if "float32" in name else 1e-9
    again = tmp_path / "again"
    for model in (cagp.load(FOLDERS / name), cagp.load(cagp.load(FOLDERS / name).save(again))):
        found = model.predict(np.array(wanted["X_test"]))
        observed = found.observed(wanted["noise_variance"])
        lower, upper = observed.interval(0.9)
        assert_allclose(found.mean, wanted["mean"], rtol=rtol, atol=rtol)
        if name != "conformal":  # its 25 scores have a root mean square of 1.41, and 0.2 said .79, now 1.32
            assert_allclose(found.std, wanted["std"], rtol=rtol)
            assert_allclose(observed.std, wanted["observed_std"], rtol=rtol)
        assert_allclose(lower, wanted["lower"], rtol=rtol, atol=rtol)
        assert_allclose(upper, wanted["upper"], rtol=rtol, atol=rtol)
        assert [model.guarantee.kind, model.guarantee.sentence] == wanted["guarantee"]
        assert ("" if model.record is None else model.record.text) == wanted["story"]
    about = saving.read(FOLDERS / name).about
    assert (about.features, about.target, about.units) == (("east", "north"), "height", {"height": "m"})


def test_a_former_folder_that_was_changed_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "model"
    shutil.copytree(FOLDERS / "plain", place)
    text = (place / "model.json").read_text(encoding="utf-8")
    (place / "model.json").write_text(text.replace("0.02", "0.03"), encoding="utf-8")
    with pytest.raises(cagp.SavedModelError):
        cagp.load(place)
