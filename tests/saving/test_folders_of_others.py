"""Model folders from others: what is large comes back, what would take for ever is refused, what is printed is text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cagp
from cagp import saving
from cagp.saving.folder import DESCRIPTION, own_hash
from cli.small import call

X = np.random.default_rng(3).random((30, 2))
y = np.sin(5 * X[:, 0])


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change model.json as somebody would who wants it to be believed: with its hash."""
    content = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    content.pop("sha256")
    change(content)
    text = json.dumps({**content, "sha256": own_hash(content)}, indent=1, ensure_ascii=False)
    (folder / DESCRIPTION).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("centres", [999, 1_200, 20_000])
def test_a_pattern_of_many_centres_comes_back(tmp_path: Path, centres: int) -> None:
    rng = np.random.default_rng(4)
    pattern = cagp.Pattern(cagp.RBF(0.3), rng.random((centres, 2)), rng.uniform(0.5, 2, centres))
    kernel = cagp.Varying(cagp.Matern32(0.3), pattern)
    model = cagp.Prior(kernel, noise_variance=0.01, noise_pattern=pattern).condition(X, y, "cholesky")
    loaded = cagp.load(model.save(tmp_path / "model"))
    assert loaded.prior == model.prior
    np.testing.assert_array_equal(loaded.predict(X).mean, model.predict(X).mean)


def test_a_sum_of_many_kernels_comes_back(tmp_path: Path) -> None:
    kernel = cagp.kernels.Sum(tuple(cagp.RBF(0.1 + i / 1000) for i in range(1_100)))
    folder = cagp.Prior(kernel, noise_variance=0.01).condition(X, y, "cholesky").save(tmp_path / "model")
    assert saving.read(folder).prior.kernel == kernel


@pytest.mark.parametrize(("degree", "columns"), [(10**9, [0]), (10**9, []), (60, None)])
def test_a_polynomial_that_nobody_can_evaluate_is_refused(tmp_path: Path, degree: int, columns: Any) -> None:
    model = cagp.Prior(cagp.RBF(0.3), mean=cagp.Polynomial(1), noise_variance=0.01).condition(X, y)
    folder = model.save(tmp_path / "model")
    changed(folder, lambda content: content["prior"]["mean"].update(degree=degree, columns=columns))
    if columns == []:
        cagp.load(folder).predict(X[:2])  # nothing to take powers of
        return
    with pytest.raises(cagp.InputError, match=r"degree"):
        cagp.load(folder)


def test_what_is_printed_of_a_folder_has_no_control_characters(tmp_path: Path) -> None:
    model = cagp.fit(X, y, kernel="matern32", uncertainty=False, varying=False, recalibrate=False, progress=False)
    folder = model.save(tmp_path / "model", about=saving.About(notes={"by": "me"}, target="height"))
    evil = "\x1b]0;title\x07\x1b[2Jgone\x00\x9b31m"

    def change(content: dict[str, Any]) -> None:
        [story] = [each for each in content["layers"] if "text" in each]
        story["text"] = f"first line\n{evil}"
        content["about"]["notes"] = {"by": evil}
        content["about"]["target"] = f"height{evil}"

    changed(folder, change)
    done = call("info", folder)
    assert done.exit_code == 0, done.output
    assert "first line\n" in done.output
    assert "gone" in done.output
    assert not set(done.output) & set(evil[:1] + "\x07\x00\x9b")
