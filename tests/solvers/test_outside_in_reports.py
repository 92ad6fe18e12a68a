"""A solver from outside the package: reports and the command line ask it, and never which class it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import cagp
from cagp.cli.shared import with_iterations
from cagp.fit_report import write_check_report, write_fit_report
from cagp.gram import Gram
from cagp.reports.computational_share import measure
from cagp.saving.objects import KNOWN
from cagp.solvers import CalibratedSolver, Prepared
from cli.small import VALUES, call, write_small


@dataclass(frozen=True, repr=False)
class Relaxation(CalibratedSolver):
    """Symmetric over-relaxation: a method with a number of iterations, and nothing but what the contract asks for."""

    iterations: int = 4

    cost = "two passes an iteration"

    def prepare(self, gram: Gram) -> Prepared:
        return cagp.Stationary("ssor", self.iterations).prepare(gram)


@dataclass(frozen=True, repr=False)
class OneSweep(CalibratedSolver):
    """A method that has no setting at all."""

    def prepare(self, gram: Gram) -> Prepared:
        return cagp.GaussSeidel(1).prepare(gram)


def model_of(solver: cagp.Solver) -> cagp.Model:
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=60)
    return cagp.Prior(cagp.Matern32(0.5), noise_variance=0.01).condition(X, y, solver)


@pytest.mark.parametrize("solver", [Relaxation(), OneSweep()], ids=repr)
@pytest.mark.usefixtures("words_only")
def test_reports_are_written(solver: cagp.Solver, tmp_path: Path) -> None:
    model = model_of(solver)
    page = write_fit_report(model, tmp_path, progress=False).path.read_text()
    assert repr(solver) in page
    check = write_check_report(model, tmp_path, progress=False)
    assert check.method is not None
    assert check.method.right
    assert check.data is not None


def test_more_work_is_tried_where_there_is_a_setting_for_it() -> None:
    found = measure(model_of(Relaxation()), seed=0)
    assert found.what == "10 more iterations"
    assert found.std is not None
    assert found.later_std is not None
    assert (found.later_std < found.std).all()
    (sentence,) = measure(model_of(OneSweep()), seed=0).sentences
    assert "OneSweep has no number of iterations to raise" in sentence


def test_operations_grow_with_the_work() -> None:
    few, many = (Relaxation(n).operations(1000, 50).seconds(tiles=True) for n in (2, 20))
    assert many == pytest.approx(10 * few)
    assert OneSweep().operations(1000, 50) == Relaxation(1).operations(1000, 50)
    assert Relaxation().for_points(np.arange(3), 9) == Relaxation() == Relaxation().for_test_points(7)


def test_the_status_advises_more_iterations_only_where_there_are_any() -> None:
    X = [[0.5, 0.5]]
    assert "more iterations could remove" in str(model_of(Relaxation()).predict(X).status)
    assert "more iterations could remove" not in str(model_of(OneSweep()).predict(X).status)


def test_the_command_line_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "Relaxation", Relaxation)
    monkeypatch.setitem(KNOWN, "OneSweep", OneSweep)
    write_small(tmp_path / "train.csv", 40)
    model, test = tmp_path / "model", tmp_path / "train.csv"
    made = call("fit", test, "--target", "height", "--out", model, *VALUES, "--no-report")
    assert made.exit_code == 0, made.output
    arguments = ["predict", model, test, "--out", tmp_path / "o.csv", "--overwrite", "--solver"]
    result = call(*arguments, "Relaxation(3)", "--iterations", 5)
    assert result.exit_code == 0, result.output
    assert "Relaxation(iterations=5)" in result.stdout
    assert "More (--iterations) can make the error bars narrower" in result.stdout
    result = call(*arguments, "OneSweep()", "--iterations", 5)
    assert result.exit_code == 2
    assert "--iterations has no meaning for OneSweep(); name a solver that has them" in result.stderr
    assert with_iterations(Relaxation(), None) == Relaxation()
