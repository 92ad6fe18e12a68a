"""One table of options: the signature of ``cagp.fit`` and all other doors are held to it, and it is checked first."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import cagp
from cagp.choosing import front_door
from cagp.choosing.candidates import KINDS
from cagp.choosing.options import Options, TrainingData
from cagp.cli import app, flags, starting
from cagp.cli.fit_command import fit as fit_command
from cagp.errors import InputError
from cagp.estimator import CAGPRegressor
from cagp.interop import xarray as grids

RNG = np.random.default_rng(0)
X = RNG.random((30, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=30)
QUICK: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "transform": None, "progress": False}


def test_the_signature_is_the_table() -> None:
    own = ("X", "y", "n_jobs", "memory_limit")  # the latter two are for data in shards
    parameters = {name: each for name, each in inspect.signature(cagp.fit).parameters.items() if name not in own}
    assert list(parameters) == [each.name for each in fields(Options)], "the arguments of cagp.fit and their order"
    for each in fields(Options):
        assert parameters[each.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[each.name].default == each.default
        assert parameters[each.name].annotation == each.type
        assert each.metadata["sentence"].endswith(".")


@pytest.mark.parametrize(("name", "instead"), [("n_jobs", "OMP_NUM_THREADS"), ("memory_limit", '"memory_budget": …')])
def test_workers_are_for_data_in_shards(name: str, instead: str) -> None:
    with pytest.raises(InputError, match=f"{name} is for data in shards.* X is ndarray.*{instead}"):
        cagp.fit(X, Y, **{name: 1})


def test_the_yes_and_no_of_numpy_are_yes_and_no() -> None:
    no, yes = np.array([False, True])
    model = cagp.fit(X, Y, uncertainty=no, recalibrate=no, rotate=yes, **QUICK)
    told = " ".join(model.story.split())
    assert "uncertainty=False" in told
    assert "were not compared with left-out observations" in told
    assert "Rotated" in repr(model.prior.kernel)
    both = np.column_stack([Y, -Y])
    assert not cagp.fit(X, both, together=no, uncertainty=no, **QUICK).together
    assert cagp.fit(X, both, together=yes, uncertainty=no, **QUICK).together
    own = {"kernel": "matern32", "target_transform": None, "uncertainty": no}
    assert not hasattr(CAGPRegressor(together=no, **own).fit(X, both), "quantities_")


def test_other_doors_have_the_same_words() -> None:
    estimator, command = (inspect.signature(each).parameters for each in (CAGPRegressor, fit_command))
    for each in fields(Options):
        for door, own in ((estimator, each.metadata["estimator"]), (command, each.metadata["command"])):
            called, where = own or each.name, "CAGPRegressor" if door is estimator else "cli/fit_command.py"
            assert own is None or called in door, f"{where} lacks {called}; where it shall not have it, options.py says"
            held = door is command or own is None or hasattr(CAGPRegressor(), called)
            assert held, f"CAGPRegressor.__init__ lacks self.{called}"
    assert "like" in inspect.signature(CAGPRegressor.fit).parameters
    # gridded fields hand on what they do not need themselves; shards are theirs
    own = {"field", "coords", "time_unit", "store", "options"}
    assert set(inspect.signature(grids.fit).parameters) - own <= {each.name for each in fields(Options)}


def test_every_option_is_explained_where_people_look() -> None:
    parameters = re.findall(r"^([\w, ]+) : ", str(inspect.getdoc(CAGPRegressor)).split("Attributes\n")[0], re.MULTILINE)
    fitted, typed = rows_of("fit.md", "## Saying more"), rows_of("command-line.md", "## Fit")
    for each in fields(Options):
        name, estimator, command = each.name, each.metadata["estimator"], each.metadata["command"]
        assert re.search(rf"``{name}(=[^`]+)?``", str(cagp.fit.__doc__)), f"the docstring of cagp.fit lacks ``{name}``"
        assert f"`{name}=" in fitted, f'a row of the table below "Saying more" in docs/fit.md lacks `{name}=…`'
        if estimator is not None:
            called = estimator or name
            assert called in ", ".join(parameters).split(", "), f"the docstring of CAGPRegressor lacks {called}"
        if command is not None:
            flag = (command or name).replace("_", "-")
            row = re.search(rf"--(no-)?{flag}\b", typed)
            assert row, f'a row of the table below "Fit" in docs/command-line.md lacks --{flag}'


def rows_of(page: str, heading: str) -> str:
    """The rows of the tables below a heading of a page in docs."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    return "\n".join(line for line in text.split(f"{heading}\n")[1].split("\n## ")[0].splitlines() if line[:1] == "|")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mixture": "yes"}, "mixture must be True or False"),
        ({"uncertainty": "yes"}, 'uncertainty must be True, False or "auto"'),
        ({"recalibrate": "yes"}, 'recalibrate must be True, False or "auto"'),
        ({"likelihood": "guess"}, "likelihood must be one of"),
        ({"mean": "cubic"}, "mean must be one of"),
        ({"kernel": "matern"}, "kernel must be a kernel, or names among"),
        ({"kernel": 5}, "kernel must be a kernel, or names among"),
        ({"globe": [0]}, "globe must be two columns"),
        ({"globe": 3}, "globe must be two columns"),
        ({"globe": [[0], [1]]}, "globe must be two columns"),
        ({"ard": "no"}, "ard must be True, False or None"),
        ({"recalibrate": np.array([True, False])}, 'recalibrate must be True, False or "auto"'),
        ({"likelihood": np.array(["exact", "auto"])}, "likelihood must be one of"),
        ({"device": "abacus"}, 'device must be such as "cpu"'),
        ({"fit_options": 3}, "fit_options must be a dict"),
        ({"fit_options": {"max_iteration": 3}}, "fit_options has 'max_iteration'; known are .*max_iterations"),
        ({"condition_options": {"solver": "cholesky"}}, "condition_options has 'solver'; known are .*memory_budget"),
        ({"globe": (0, 1), "times": [1]}, "globe and times both name column 1"),
        ({"condition_options": {"budget": 1e9}}, "condition_options has 'budget'; known are .*memory_budget"),
        ({"times": [5]}, "times must be columns among 0 to 1"),
        ({"solver": "magic"}, "solver"),
        ({"seed": -1}, "seed"),
        ({"seconds": 0}, "seconds must be positive"),
        ({"seconds": "soon"}, "seconds must be"),
        ({"like": np.ones((3, 5))}, "like has 5 columns"),
        ({"transform": "yeo-johnson", "noise_variance": 0.1}, "^noise_variance, as given, is on the scale"),
        ({"transform": "yeo-johnson", "noise_variance": 0.1, "mean": cagp.Constant()}, "^noise_variance, as given, is"),
        ({"transform": "yeo-johnson", "mean": "zero"}, "^the known mean 'zero', as given, is on the scale"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_what_cannot_be_is_refused_before_work(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_door, "run_steps", lambda *arguments: pytest.fail("work was done"))
    with pytest.raises(InputError, match=words):
        cagp.fit(X, Y, **options)


def test_one_column_may_be_said_without_a_list() -> None:
    data = TrainingData.read(X, Y, None)
    assert Options(times=1).checked(data).groups == Options(times=[1]).checked(data).groups


def test_a_spherical_kernel_is_one_of_several_in_space_and_refused_at_once_in_more_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = cagp.fit(X, Y, mixture=False, **{**QUICK, "kernel": ["matern32", "spherical"]})
    assert {each.name.split(",")[0] for each in model.candidates} >= {"matern32", "spherical"}
    monkeypatch.setattr(front_door, "run_steps", lambda *arguments: pytest.fail("work was done"))
    with pytest.raises(InputError, match="Spherical is positive definite in up to 3 columns"):
        cagp.fit(np.hstack([X, X]), Y, kernel=["matern32", "spherical"])


def test_like_with_columns_in_another_order_is_refused() -> None:
    frame = pd.DataFrame(X, columns=["east", "north"])
    with pytest.raises(InputError, match=r"like has the columns \['north', 'east'\]"):
        cagp.fit(frame, Y, like=frame[["north", "east"]], **QUICK)


class Elsewhere(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    device = property(lambda self: torch.device("cuda"))  # type: ignore[assignment]


@pytest.mark.skipif(torch.cuda.is_available(), reason="tells where the work is done by what fails without a GPU")
def test_the_work_is_done_where_the_data_are() -> None:
    there = torch.from_numpy(X).as_subclass(Elsewhere)
    with pytest.raises(InputError, match=r"(?i)device.*(cuda|nvidia)"):
        cagp.fit(there, Y, **QUICK)


@pytest.mark.gpu
def test_the_work_is_done_on_the_gpu_of_the_data() -> None:
    model = cagp.fit(torch.from_numpy(X).cuda(), torch.from_numpy(Y).cuda(), **QUICK)
    assert model.device.type == "cuda"
    here = cagp.fit(X, Y, **QUICK).predict(X[:3]).mean
    # compiled code on a CPU knows the information of the likelihood, torch does not: other points are integrated over
    np.testing.assert_allclose(model.predict(X[:3]).mean, here, atol=0.01)


def test_what_is_held_is_held_where_hyperparameters_are_integrated_over() -> None:
    given = {"noise_variance": 0.09, "fit_options": {"fix_noise": True, "bounds": {"lengthscale": (0.1, 0.4)}}}
    model: Any = cagp.fit(X, Y, recalibrate=False, **QUICK, **given)
    priors = [each.prior for each in model.components]
    assert len(priors) > 1
    assert all(prior.noise_variance == 0.09 for prior in priors)
    assert all(0.1 <= scale <= 0.4 for prior in priors for scale in prior.kernel.lengthscale)


def test_the_command_hands_on_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: dict[str, Any] = {}
    monkeypatch.setattr(starting, "fit_named", lambda X, y, names, units, **options: handed.update(options))
    table = tmp_path / "table.csv"
    table.write_text("a,b,y\n" + "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(30)))
    CliRunner().invoke(app, ["fit", str(table), "--target", "y", "--out", str(tmp_path / "model")])
    table = {each.name: each.default for each in fields(Options) if each.metadata["command"] is not None}
    assert not set(table) - set(handed), "cli/fit_command.py takes these, and hands them to cagp.fit by `_FLAGGED`"
    other = {name: handed[name] for name in table if handed[name] != table[name]}
    # "auto" is None there, and what lies on the globe the command has found out and told by itself
    assert other == {"solver": "auto", "globe": ()}, "a flag that was not given is the default of cagp.fit"


def test_all_kinds_of_kernels_are_named_where_people_look() -> None:
    for kind in KINDS:
        assert f'"{kind}"' in str(cagp.fit.__doc__), "the docstring of cagp.fit names all of KINDS"
        assert f" {kind}," in flags._KINDS, "the help of --kernel, in cli/flags.py, names all of KINDS"
