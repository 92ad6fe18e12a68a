"""Models of several parts on disk: they come back as they were, and what no part can be is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import cagp
from cagp import saving
from cagp.errors import SavedModelError
from cagp.recalibration import Conformal

RNG = np.random.default_rng(5)
X = RNG.random((300, 2))
"""Rough in the east, smooth in the west: one stationary prior cannot be right."""
Y = np.sin(6 * X[:, 0]) + (0.02 + X[:, 0] ** 3) * RNG.standard_t(3, size=300)
TEST = RNG.random((23, 2)) * 1.3
PRIOR = cagp.Prior(cagp.Matern32(0.4), noise_variance=0.01)


def plain(**options: Any) -> cagp.Model:
    return PRIOR.condition(X[:240], Y[:240], **options)


def conformal_alone() -> cagp.Model:
    scores = plain().predict(X[240:]).observed().normal_score(Y[240:])
    return plain().replace(margins=Conformal(np.sort(scores)))


MODELS = {
    "recalibrated": lambda: plain().recalibrated(),
    "in gaps": lambda: plain().recalibrated(like=TEST),
    "conformal": lambda: plain().recalibrated(calibration=(X[240:], Y[240:])),
    "conformal alone": lambda: conformal_alone(),
    "neighbours": lambda: plain(solver=cagp.NearestNeighbours(20)).recalibrated(n=100, seed=3),
    "single": lambda: plain(dtype="float32").recalibrated(),
}


def assert_same(one: cagp.Model, other: cagp.Model) -> None:
    assert type(other.margins) is type(one.margins)
    for first, second in (
        (one.predict(TEST), other.predict(TEST)),
        (one.predict(TEST).observed(), other.predict(TEST).observed()),
    ):
        for name in ("mean", "std", "median"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        np.testing.assert_array_equal(first.interval(0.9), second.interval(0.9))
        np.testing.assert_array_equal(first.cdf(0.3), second.cdf(0.3))
        assert first.guarantee == second.guarantee


@pytest.mark.parametrize("kind", MODELS)
def test_bit_for_bit(tmp_path: Path, kind: str) -> None:
    model = MODELS[kind]()
    place = model.save(tmp_path / "model", about=saving.About(("a", "b"), "y"))
    anew = kind not in ("in gaps", "conformal alone")  # what cagp 0.2 would take for damaged
    assert json.loads((place / "model.json").read_text())["format_version"] == (6 if anew else 2)
    loaded = cagp.load(place)
    assert_same(model, loaded)
    saved = saving.read(place)
    assert saved.guarantee == model.guarantee == loaded.guarantee
    assert saved.about.target == "y"
    assert_same(model, saving.load(loaded.save(tmp_path / "again")))


def test_long_lists_of_every_component_come_back(tmp_path: Path) -> None:
    """The centres of a pattern are arrays where they are many, those of a second component too."""
    centres, values = RNG.random((1001, 2)), np.linspace(0.5, 2.0, 1001)
    kernel = cagp.Varying(cagp.Matern32(0.4), cagp.Pattern(cagp.RBF(0.3), centres, values))
    first = plain().components[0]
    other = first.with_prior(cagp.Prior(kernel, noise_variance=0.01))
    model = plain().replace(components=[first, other], weights=(0.6, 0.4))
    loaded = cagp.load(model.save(tmp_path / "model"))
    assert loaded.components[1].prior == other.prior
    np.testing.assert_array_equal(loaded.predict(TEST).mean, model.predict(TEST).mean)


def test_plain_models_stay_readable_by_older_versions(tmp_path: Path) -> None:
    content = json.loads((plain().save(tmp_path / "model") / "model.json").read_text())
    assert content["format_version"] == 1
    assert "layers" not in content
    assert saving.read(tmp_path / "model").parts.in_words == ""


def test_a_model_of_one_quantity_asks_for_a_newer_version(tmp_path: Path) -> None:
    place = plain().replace(quantity=0).save(tmp_path / "model")
    assert json.loads((place / "model.json").read_text())["format_version"] == 6


def test_another_solver_underneath(tmp_path: Path) -> None:
    model = MODELS["recalibrated"]()
    other = saving.load(model.save(tmp_path / "model"), solver=cagp.NearestNeighbours(239))
    assert other.margins is not None
    assert other.solver == cagp.NearestNeighbours(239)
    np.testing.assert_allclose(other.predict(TEST).std, model.predict(TEST).std, rtol=1e-3)


def test_overwriting_a_plain_model(tmp_path: Path) -> None:
    place = plain().save(tmp_path / "model")
    model = MODELS["conformal"]()
    assert_same(model, saving.load(model.save(place, overwrite=True)))
    assert len(list(place.iterdir())) == 2


def forged(place: Path, change: Any) -> None:
    """Change the content and the arrays of a model, with all hashes right again."""
    content = json.loads((place / "model.json").read_text())
    del content["sha256"]
    data = place / content["data"]["file"]
    arrays = load_file(data)
    change(content, arrays)
    save_file(arrays, data)
    content["data"] |= {
        "bytes": data.stat().st_size,
        "sha256": hashlib.sha256(data.read_bytes()).hexdigest(),
        "arrays": {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in arrays.items()},
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    (place / "model.json").write_text(json.dumps({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}))


def at(*path: Any) -> Any:
    *where, last, value = path

    def change(content: Any, arrays: Any) -> None:
        place = content["layers"]
        for key in where:
            place = place[key]
        place[last] = value

    return change


def array(name: str, value: Any) -> Any:
    def change(content: Any, arrays: Any) -> None:
        arrays[name] = value(arrays.get(name))

    return change


def version_one(content: Any, arrays: Any) -> None:
    content["format_version"] = 1


def without_layers(content: Any, arrays: Any) -> None:
    del content["layers"]


BAND = "layers[0].bands[0]"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (version_one, "has the entries"),
        (without_layers, "has the entries"),
        (lambda content, arrays: content.update(layers=[]), "at least one entry"),
        (lambda content, arrays: content.update(layers={"layer": "conformal"}), "must be a list"),
        (at(0, "layer", "os.system"), "unknown layer 'os.system'"),
        (at(0, "layer", "conformal"), "scores must be an array of float64"),
        (at(0, "more", 1), "exactly the entries bands, how and seed"),
        (at(0, "bands", []), "at least one entry"),
        (at(0, "seed", -1), "seed"),
        (at(0, "bands", 0, {"distance": 1}), "exactly the entries distance"),
        (at(0, "bands", 0, "finest", 9), "finest is 9"),
        (at(0, "bands", 0, "finest", 0.5), "finest must be an integer"),
        (at(0, "bands", 0, "spread", -1.0), "spread must be positive"),
        (at(0, "bands", 0, "strength", "much"), "strength must be a real number"),
        (at(0, "bands", 0, "distance", -1.0), "distance must not be negative"),
        (at(0, "bands", 0, "distance", 1e9), "ever further"),
        (at(1, "more", 1), "nothing but sorted scores"),
        (array(f"{BAND}.index", lambda known: known + 1), "one of the 240 observations"),
        (array(f"{BAND}.index", lambda known: known[:-1]), "one of the 240 observations"),
        (array(f"{BAND}.index", lambda known: known.astype(float)), "index must be an array of int64"),
        (array(f"{BAND}.z", lambda known: known * np.nan), "z must be finite"),
        (array(f"{BAND}.z", lambda known: known[:, None]), "z must be an array"),
        (array(f"{BAND}.z", lambda known: known.astype(np.float32)), "has type float32"),
        (array(f"{BAND}.values", lambda known: known[::-1].copy()), "numbers that increase"),
        (array(f"{BAND}.values", lambda known: known[:-1]), "numbers that increase"),
        (array("layers[1].scores", lambda known: known[::-1].copy()), "sorted scores"),
        (array("layers[1].scores", lambda known: known * np.nan), "sorted scores"),
        (array("layers[1].scores", lambda known: known[:0]), "sorted scores"),
        (array("layers[1].more", lambda known: np.ones(3)), "belongs to no layer"),
        (array("layers[7].scores", lambda known: np.ones(3)), "belongs to no layer"),
    ],
)
def test_forged(tmp_path: Path, change: Any, words: str) -> None:
    place = SAVED(tmp_path)
    forged(place, change)
    with pytest.raises(SavedModelError, match=words):
        saving.load(place)


_KEPT: list[cagp.Model] = []


def SAVED(folder: Path) -> Path:
    if not _KEPT:
        _KEPT.append(MODELS["conformal"]())
    return _KEPT[0].save(folder / "model")


def test_torch_comes_out_as_it_went_in(tmp_path: Path) -> None:
    model = MODELS["conformal"]()
    loaded = saving.load(model.save(tmp_path / "model"))
    tensor = loaded.predict(torch.from_numpy(TEST)).observed()
    assert isinstance(tensor.std, torch.Tensor)
    for ours, theirs in zip(tensor.interval(0.8), model.predict(TEST).observed().interval(0.8), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
