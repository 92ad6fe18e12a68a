"""Saving and loading: exact round trips, and a refusal of everything else that touches nothing."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cagp
from cagp import saving
from cagp.errors import InputError, SavedModelError
from cagp.kernels import Kernel
from cagp.saving import objects
from cagp.saving.objects import KNOWN
from problems import make_problem
from random_examples import examples
from solver_cases import CASES

PROBLEM = make_problem(d=40, T=7)
KERNELS: list[Kernel] = [
    cagp.Matern12(0.3, 1.7),
    cagp.Spherical(0.3, 1.7),
    cagp.FractionalBrownian(0.3, 1.7),
    cagp.Matern32((0.1, 0.2)),
    cagp.Matern52(1 / 3),
    cagp.RBF((0.5, 0.7), 0.2),
    cagp.RationalQuadratic(0.4, 1.1, alpha=0.7),
    cagp.Periodic((0.5, 0.6), 1.0, period=(2.0, 3.0)),
    cagp.Geographic(cagp.Matern32(400.0), radius=6371.0),
    cagp.Matern32(0.2).on(1) + 0.5 * cagp.RBF(0.3).on(0),
    cagp.Matern12(0.2).on(0) * (cagp.RBF(0.3) + cagp.Periodic(1.0).on(1)),
]


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder, to see whether anything was touched."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (path.lstat().st_mtime_ns, content)
    return found


def assert_same(first: cagp.Model, second: cagp.Model, X: Any = PROBLEM.X_test) -> None:
    one, two = first.predict(X), second.predict(X)
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.variance, two.variance)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved model."""
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(3))
    return model.save(tmp_path / "model")


# --- round trips ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("mean", [cagp.Zero(), cagp.Constant(), cagp.Polynomial(1), cagp.Polynomial(2, (1,))], ids=repr)
def test_priors(tmp_path: Path, kernel: Kernel, mean: cagp.Mean) -> None:
    model = cagp.Prior(kernel, mean=mean, noise_variance=0.1 + 0.2).condition(PROBLEM.X, PROBLEM.y, "cholesky")
    loaded = saving.load(model.save(tmp_path / "model"))
    assert loaded.prior == model.prior
    assert_same(model, loaded)


@pytest.mark.parametrize("case", [case for case in CASES if "half_jacobi" not in case.id], ids=lambda case: case.id)
def test_solvers(tmp_path: Path, case: Any) -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, case.solver)
    loaded = saving.load(model.save(tmp_path / "model"))
    assert loaded.solver == (model.prepared.picked or model.solver)
    assert_same(model, loaded)


WHERE = {
    "cagp.kernels": "__all__ of kernels/__init__.py",
    "cagp.means": "_OTHERS of saving/objects.py",
    "cagp.preconditioners": "_OTHERS of saving/objects.py",
    "cagp.solvers": "ALL of solvers/__init__.py",
}
"""What saving knows the classes of a room from."""


def test_every_built_in_class_is_known() -> None:
    from cagp import kernels, means, preconditioners, solvers

    for module in (kernels, means, preconditioners, solvers):
        for each in vars(module).values():
            if isinstance(each, type) and hasattr(each, "__dataclass_fields__"):
                abstract = bool(getattr(each, "__abstractmethods__", None))
                function = each.__name__ in ("CustomKernel", "CallableMean", "Basis")
                known = KNOWN.get(each.__name__) is each
                assert abstract or function or known, f"{each.__name__} is missing in {WHERE[module.__name__]}"


def test_long_permutations_and_indices_are_arrays(tmp_path: Path) -> None:
    problem = make_problem(d=200, T=5)
    order = np.random.default_rng(3).permutation(200)
    solver = cagp.Chain(
        [cagp.Subset(indices=order[:100]), cagp.CalibratedCG(2, start=cagp.GaussSeidel(2, order=order))]
    )
    model = problem.prior.condition(problem.X, problem.y, solver)
    place = model.save(tmp_path / "model")
    assert len((place / "model.json").read_text()) < 5000
    loaded = saving.load(place)
    assert loaded.solver == solver
    assert_same(model, loaded, problem.X_test)


@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float32")])
@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_arithmetic_and_storage(tmp_path: Path, dtypes: tuple[str, str], storage: str) -> None:
    options = {"dtype": dtypes[0], "solve_dtype": dtypes[1], "storage": storage}
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.CalibratedCG(5), **options)  # type: ignore[arg-type]
    loaded = saving.load(model.save(tmp_path / "model"))
    assert (loaded.gram.dtype, loaded.prepared.gram.storage) == (model.gram.dtype, storage)
    assert_same(model, loaded)


def test_tf32_can_be_loaded_and_says_what_to_do_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("cagp.predicting.conditioned.tf32_refused", lambda device, storage: False)  # as on a GPU
        options = {"storage": "tiles", "solve_dtype": "tf32"}
        model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.CalibratedCG(5), **options)  # type: ignore[arg-type]
        place = model.save(tmp_path / "model")
    assert saving.read(place).solve_dtype == "tf32"
    with pytest.raises(cagp.InputError, match=r'tf32.*solve_dtype="float32"'):
        saving.load(place)
    loaded = saving.load(place, solve_dtype="float32")
    options = {"storage": "tiles", "solve_dtype": "float32"}
    single = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.CalibratedCG(5), **options)  # type: ignore[arg-type]
    assert_same(single, loaded)


def test_noise_of_each_observation_and_names(tmp_path: Path) -> None:
    problem = make_problem(d=30, noise=None)
    frame = pd.DataFrame(problem.X, columns=["breadth", "länge"])
    model = problem.prior.condition(frame, problem.y, cagp.NearestNeighbours(9))
    place = model.save(tmp_path / "deep" / "er" / "model")
    loaded = saving.load(place)
    np.testing.assert_array_equal(loaded.prior.noise_variance, problem.noise)
    assert_same(model, loaded, problem.X_test)
    with pytest.raises(InputError, match="same order"):
        loaded.predict(frame[["länge", "breadth"]])


def test_neighbours_that_were_saved_before_there_were_far_ones(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    old = {"class": "NearestNeighbours", "k": 30}
    assert objects.decode(old, "solver", arrays, cagp.Solver) == cagp.NearestNeighbours(30, far=0, shared=False)
    for solver in (cagp.NearestNeighbours(30), cagp.NearestNeighbours(30, far=7, seed=2)):
        written = objects.encode(solver, "solver", arrays)
        assert objects.decode(written, "solver", arrays, cagp.Solver) == solver
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.NearestNeighbours(6, far=5, seed=3))
    assert_same(model, saving.load(model.save(tmp_path / "model")))


def test_a_model_keeps_its_own_data(tmp_path: Path) -> None:
    X = PROBLEM.X.copy()
    model = PROBLEM.prior.condition(X, PROBLEM.y, "cholesky")
    X[:] = 0
    loaded = saving.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.X, PROBLEM.X)
    assert_same(model, loaded)


def test_about(tmp_path: Path) -> None:
    fit = cagp.hyperparameters.fit(PROBLEM.prior, PROBLEM.X, PROBLEM.y, n_restarts=0)
    about = saving.About(("a", "b"), "y", {"a": "m", "y": "K"}, {"source": "a “story”\n"}, saving.FitSummary.of(fit))
    model = fit.prior.condition(PROBLEM.X, PROBLEM.y)
    saved = saving.read(model.save(tmp_path / "model", about=about))
    assert saved.about == about
    assert saved.cagp_version == cagp.__version__
    assert saved.created.startswith("20")
    assert isinstance(saved.solver, cagp.Auto)
    assert saved.picked == cagp.Cholesky()


def test_standard_errors_that_are_no_numbers() -> None:
    summary = saving.FitSummary("exact", 3, float("-inf"), True, {"a": 1.0}, {"a": float("inf")}, ("w",), "m")
    assert saving.FitSummary.from_json(json.loads(json.dumps(summary.to_json(), allow_nan=False))) == summary


def test_torch_in_and_another_solver(tmp_path: Path) -> None:
    model = PROBLEM.prior.condition(torch.from_numpy(PROBLEM.X), PROBLEM.y, "cholesky")
    loaded = saving.load(model.save(tmp_path / "model"), solver=cagp.GaussSeidel(2000))
    np.testing.assert_allclose(loaded.predict(PROBLEM.X_test).mean, model.predict(PROBLEM.X_test).mean, atol=1e-6)


# --- what cannot be saved, and where it cannot go ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "solver", "words"),
    [
        (cagp.Prior(cagp.CustomKernel(lambda A, B: A @ B.T)), "cholesky", "kernel cannot be saved.*built-in kernels"),
        (
            cagp.Prior(cagp.RBF() + cagp.CustomKernel(lambda A, B: A @ B.T)),
            "cholesky",
            r"kernel.kernels\[1\] cannot be saved",
        ),
        (cagp.Prior(cagp.RBF(), mean=lambda X: X[:, 0]), "cholesky", "mean cannot be saved.*Constant or Polynomial"),
        (
            cagp.Prior(cagp.RBF()),
            cagp.Stationary(lambda gram, R: R * 1e-3, 2),
            "solver.method cannot be saved.*function.*by its name",
        ),
    ],
)
def test_functions_are_refused(tmp_path: Path, prior: cagp.Prior, solver: Any, words: str) -> None:
    model = prior.condition(PROBLEM.X, PROBLEM.y, solver)
    with pytest.raises(InputError, match=words):
        model.save(tmp_path / "new" / "model")
    assert list(tmp_path.iterdir()) == []


def test_overwriting(folder: Path) -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y + 1, "cholesky")
    before = files(folder)
    with pytest.raises(InputError, match="already holds a model"):
        model.save(folder)
    assert files(folder) == before
    (folder / "notes.txt").write_text("mine")
    model.save(folder, overwrite=True)
    assert_same(saving.load(folder), model)
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".safetensors", ".txt"]


def test_data_that_another_process_is_about_to_describe_stay(folder: Path) -> None:
    theirs = folder / f"data-{'0' * 16}.safetensors"
    theirs.write_bytes(b"of a model.json that is not there yet")
    PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y + 1, "cholesky").save(folder, overwrite=True)
    assert theirs.exists()
    assert len(list(folder.glob("data-*"))) == 2


@pytest.mark.parametrize("back", [False, True], ids=["once", "and back"])
def test_a_model_that_is_replaced_while_it_is_read_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    old, new = saving.load(folder), PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y + 1, "cholesky")
    read_arrays = saving.folder._read_arrays

    def while_replaced(path: Path, described: Any) -> Any:
        monkeypatch.undo()
        new.save(folder, overwrite=True)  # the file that was there a moment ago is gone
        try:
            return read_arrays(path, described)
        finally:
            if back:  # model.json then says the same as before
                old.save(folder, overwrite=True)

    monkeypatch.setattr(saving.folder, "_read_arrays", while_replaced)
    assert_same(saving.load(folder), old if back else new)


def test_a_model_that_is_removed_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_arrays = saving.folder._read_arrays

    def while_removed(path: Path, described: Any) -> Any:
        shutil.rmtree(folder)
        return read_arrays(path, described)

    monkeypatch.setattr(saving.folder, "_read_arrays", while_removed)
    with pytest.raises(SavedModelError, match=r"model\.json is missing"):
        saving.load(folder)


def test_other_things_are_not_overwritten(tmp_path: Path) -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, "cholesky")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "model.json").write_text("{}")
    (tmp_path / "file").write_text("x")
    before = files(tmp_path)
    for name, words in (("thesis", "not a model"), ("file", "not a folder")):
        with pytest.raises(InputError, match=words):
            model.save(tmp_path / name, overwrite=True)
    assert files(tmp_path) == before
    (tmp_path / "empty").mkdir()
    assert_same(saving.load(model.save(tmp_path / "empty")), model)


@pytest.mark.parametrize("fails_at", ["fsync", "replace", "rename"])
@pytest.mark.parametrize("exists", [False, True])
def test_a_full_disk_leaves_the_old_model_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str, exists: bool
) -> None:
    place = tmp_path / "model"
    if exists:
        PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, "cholesky").save(place)
    before = {name: content for name, (_, content) in files(tmp_path).items()}

    def full(*arguments: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(f"os.{fails_at}", full)
    new = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y + 1, "cholesky")
    if exists and fails_at == "rename":
        new.save(place, overwrite=True)  # a rename is only needed where there is no folder yet
        return
    with pytest.raises(OSError, match="no space"):
        new.save(place, overwrite=True)
    assert {name: content for name, (_, content) in files(tmp_path).items()} == before


# --- what is refused when loading -------------------------------------------------------------------------------------


def changed(folder: Path, change: Any) -> None:
    """Change model.json and give it the right hash again: what a forger would do."""
    content = json.loads((folder / "model.json").read_text())
    del content["sha256"]
    change(content)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(content))


def set_at(*path: Any) -> Any:
    *where, value = path

    def change(content: Any) -> None:
        for key in where[:-1]:
            content = content[key]
        content[where[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_at("format_version", 99), "format version 99.*use a newer cagp"),
        (set_at("format_version", True), "which is none"),
        (set_at("format", "pickle"), "does not describe a cagp model"),
        (set_at("prior", "kernel", {"class": "os.system", "command": "rm"}), "unknown class 'os.system'"),
        (set_at("prior", "kernel", {"class": "CustomKernel", "function": "f", "variance": 1}), "unknown class"),
        (set_at("prior", "kernel", {"class": "Zero"}), "must be a kernel"),
        (set_at("prior", "kernel", "__class__", 3), "must have exactly the entries"),
        (set_at("prior", "kernel", "lengthscale", "long"), "lengthscale must be a real number"),
        (set_at("prior", "kernel", "variance", -1.0), "variance must be positive"),
        (set_at("prior", "noise_variance", 0), "noise_variance must be positive"),
        (set_at("prior", "noise_variance", [0.1, 0.2]), "noise_variance has 2 values for 40"),
        (set_at("solver", "asked", "iterations", 2.5), "iterations must be an integer"),
        (set_at("solver", "asked", "order", {"array": "X"}), "array that is not in the data file"),
        (set_at("solver", "asked", "order", [0] * 5000), "list of 5000"),
        (set_at("settings", "dtype", "float16"), "dtype"),
        (set_at("settings", "storage", "cloud"), "storage"),
        (
            set_at("prior", "mean", {"class": "Polynomial", "degree": 10**30, "columns": None, "coefficients": [1.0]}),
            r"below 2\*\*63",
        ),
        (set_at("about", "features", ["a"]), "features has 1 names"),
        (set_at("about", None), "about"),
        (set_at("extra", 1), "has the entries"),
        (set_at("data", "file", "../model/data.safetensors"), "the data file is called"),
        (set_at("data", "file", "/etc/passwd"), "the data file is called"),
        (set_at("data", "file", "data-0123456789abcdef.safetensors"), "is missing"),
        (set_at("data", "bytes", 7), "truncated"),
        (set_at("data", "sha256", "0" * 64), "changed or damaged"),
        (set_at("data", "arrays", "X", "shape", [20, 4]), "announces"),
        (set_at("data", {}), "not what cagp writes"),
        (lambda content: content.clear(), "does not describe"),
    ],
)
def test_forged(folder: Path, change: Any, words: str) -> None:
    changed(folder, change)
    before = files(folder)
    with pytest.raises(SavedModelError, match=words):
        saving.load(folder)
    assert files(folder) == before


def test_changed_by_hand(folder: Path) -> None:
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"variance": 1.7', '"variance": 1.8'))
    with pytest.raises(SavedModelError, match="changed or damaged"):
        saving.load(folder)


def test_reformatted_is_fine(folder: Path) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    saving.load(folder)


def test_huge_headers(folder: Path) -> None:
    (data,) = folder.glob("*.safetensors")
    content = bytearray(data.read_bytes())
    content[:8] = (2**40).to_bytes(8, "little")
    data.write_bytes(content)
    with pytest.raises(SavedModelError, match=r"header of 1099511627776 bytes"):
        saving.load(folder)
    with open(folder / "model.json", "r+b") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(SavedModelError, match="cagp writes a few thousand"):
        saving.load(folder)


def test_deep_nesting(folder: Path) -> None:
    (folder / "model.json").write_text('{"format": "cagp model", "a":' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(SavedModelError, match="not readable JSON"):
        saving.load(folder)


def test_links_that_lead_out(folder: Path, tmp_path: Path) -> None:
    (data,) = folder.glob("*.safetensors")
    for path in (data, folder / "model.json"):
        shutil.move(path, tmp_path / path.name)
        os.symlink(tmp_path / path.name, path)
        with pytest.raises(SavedModelError, match="leads out of the folder"):
            saving.load(folder)
        path.unlink()
        shutil.move(tmp_path / path.name, path)
    saving.load(folder)


@pytest.mark.parametrize("what", ["missing", "a file", "empty", "another folder"])
def test_not_a_model(tmp_path: Path, what: str) -> None:
    place = tmp_path / "model"
    if what == "a file":
        place.write_text("x")
    elif what != "missing":
        place.mkdir()
    if what == "another folder":
        (place / "model.json").write_text("[1, 2]")
    with pytest.raises(SavedModelError, match=r"not a folder|is missing|does not describe"):
        saving.load(place)


@examples(60)
@given(seed=st.integers(0, 2**32))
def test_damaged_anywhere(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Cut off, flipped, filled with noise: refused, and nothing is touched."""
    rng = random.Random(seed)
    place = tmp_path_factory.mktemp("damaged")
    model = PROBLEM.prior.condition(PROBLEM.X[:5], PROBLEM.y[:5], "cholesky").save(place / "model")
    victim = rng.choice(sorted(model.iterdir()))
    content = bytearray(victim.read_bytes())
    kind = rng.choice(["cut", "flip", "noise", "grow"])
    if kind == "cut":
        content = content[: rng.randrange(len(content) - 1)]  # the very last byte of model.json is a line end
    elif kind == "flip":
        position = rng.randrange(len(content) - 2)
        content[position] ^= 1 << rng.randrange(8)
    elif kind == "noise":
        start = rng.randrange(len(content) - 8)
        content[start : start + 8] = rng.randbytes(8)
    else:
        content += rng.randbytes(rng.randrange(1, 50)) + b"x"
    victim.write_bytes(content)
    before = files(place)
    try:
        # white space, or the same number written otherwise, is no damage
        fine = saving.read(model).prior == PROBLEM.prior and victim.name == "model.json"
    except SavedModelError as error:
        fine = str(model) in str(error)
    assert fine
    assert files(place) == before
