"""``cagp fit --transform``, and what the other commands make of such a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cagp
from cagp.transforms import Log
from cli.small import VALUES, call

ONE = ("--kernel", "matern32", "--mean", "constant", "--no-uncertainty", "--no-report")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with skewed data in train.csv, and a model of their logarithm."""
    place = tmp_path_factory.mktemp("transform")
    rng = np.random.default_rng(6)
    x = rng.random(90)
    rain = np.exp(1.5 * np.sin(7 * x) + 0.4 * rng.normal(size=90))
    pd.DataFrame({"x": x, "rain": rain}).to_csv(place / "train.csv", index=False)
    pd.DataFrame({"x": np.linspace(0, 1, 7)}).to_csv(place / "new.csv", index=False)
    result = call("fit", place / "train.csv", "--target", "rain", "--out", place / "model", "--transform", "log", *ONE)
    assert result.exit_code == 0, result.output
    assert "The observations are transformed: the logarithm, as asked for." in result.stdout
    return place


def test_predictions_are_on_the_scale_of_the_table(folder: Path) -> None:
    model = cagp.load(folder / "model")
    assert model.transform == Log()
    new = pd.read_csv(folder / "new.csv")
    expected = model.predict(new.to_numpy())
    for more in ((), ("--no-std",), ("--observed",)):
        shown = expected.observed() if more == ("--observed",) else expected
        result = call("predict", folder / "model", folder / "new.csv", "--out", folder / "o.csv", "--overwrite", *more)
        assert result.exit_code == 0, result.output
        found = pd.read_csv(folder / "o.csv")
        np.testing.assert_allclose(found["mean"], shown.mean, rtol=1e-6)
        if more != ("--no-std",):
            np.testing.assert_allclose(found["std"], shown.std, rtol=1e-6)
            np.testing.assert_allclose(found["lower_95"], shown.interval(0.95)[0], rtol=1e-6)
            assert (found["lower_95"] > 0).all()


def test_info_knows_the_transform(folder: Path) -> None:
    said = " ".join(call("info", folder / "model").stdout.split())
    assert "the logarithm" in said
    rain = pd.read_csv(folder / "train.csv")["rain"]
    assert f"{rain.max():.6g}" in said


@pytest.mark.parametrize("more", [("--no-recalibrate",), ()])
def test_values_of_the_logarithm_are_taken_as_given(folder: Path, more: tuple[str, ...]) -> None:
    """Lognormal kriging with a variogram of one's own: kernel and noise are those of the logarithm."""
    asked = ("--target", "rain", "--out", folder / "given", "--overwrite", "--transform", "log", "--mean", "constant")
    result = call("fit", folder / "train.csv", *asked, *VALUES, "--no-report", *more)
    assert result.exit_code == 0, result.output
    prior = cagp.Prior(cagp.Matern32(0.4, 1.0), mean=cagp.means.Constant(), noise_variance=0.01).transformed("log")
    table = pd.read_csv(folder / "train.csv")
    expected, new = prior.condition(table[["x"]], table["rain"]), np.linspace(0, 1, 9)[:, None]
    found = cagp.load(folder / "given")
    assert found.transform == Log()
    assert (found.margins is None) == bool(more)  # the noise is too small, so that the error bars are recalibrated
    if more:
        np.testing.assert_allclose(found.predict(new).mean, expected.predict(new.copy()).mean, rtol=1e-9)
        np.testing.assert_allclose(found.predict(new).interval(0.9), expected.predict(new).interval(0.9), rtol=1e-9)
    else:
        np.testing.assert_allclose(found.predict(new).median, expected.predict(new).median, rtol=0.3)
        assert (found.predict(new).interval(0.999)[0] > 0).all()


def test_wrong_use(folder: Path) -> None:
    start = ("fit", folder / "train.csv", "--target", "rain", "--out", folder / "other")
    for more, words in (
        (("--transform", "square"), "--transform must be one of 'auto', 'none', 'log'"),
        (("--transform", "logit"), "shares lie strictly between 0 and 1"),
        (("--transform", "box-cox", *VALUES), "--transform box-cox has a power to be fitted, and --no-fit fits none"),
    ):
        result = call(*start, *more)
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split())
