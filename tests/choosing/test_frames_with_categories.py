"""Data frames with categories, dates, yes and no: the same model as from the command line, kept, refused in words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import cagp
from cagp.cli import app
from cagp.errors import InputError
from cagp.support.encodings import MOST_LEVELS

N = 60
RNG = np.random.default_rng(0)
SOILS = np.array(["peat", "clay", "sand"])[RNG.integers(0, 3, N)]
FRAME = pd.DataFrame(
    {
        "x": RNG.random(N),
        "soil": SOILS,
        "wet": RNG.random(N) < 0.5,
        "when": pd.date_range("2024-03-01", periods=N, freq="36h"),
        "plot": RNG.integers(1, 3, N),
    }
)
ENCODED = np.column_stack(
    [
        FRAME["x"],
        SOILS == "peat",
        SOILS == "sand",
        FRAME["wet"],
        (FRAME["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D"),
        FRAME["plot"] == 2,
    ]
).astype(float)
FEATURES = ["x", "soil=peat", "soil=sand", "wet", "when", "plot=2"]
Y = np.sin(6 * ENCODED[:, 0]) + ENCODED @ [0, 1.0, -0.5, 0.3, 0, 0.2] + 0.05 * RNG.normal(size=N)
QUICK: Any = {"kernel": "matern32", "uncertainty": False, "varying": False, "rotate": False, "progress": False}


def frames() -> dict[str, Any]:
    asked = FRAME.assign(plot=FRAME["plot"].astype("category"))
    words = FRAME.assign(plot=asked["plot"], wet=np.where(FRAME["wet"], "yes", "no"))
    made = {
        "pandas": asked,
        "categorical": asked.assign(soil=asked["soil"].astype("category")),
        "objects": asked.assign(soil=asked["soil"].astype(object), wet=asked["wet"].astype(object)),
        "nullable": asked.assign(soil=asked["soil"].astype("string"), wet=asked["wet"].astype("boolean")),
        "words": words,
        "pyarrow": pa.Table.from_pandas(asked),
    }
    try:
        import polars
    except ImportError:
        return made
    return {
        **made,
        "polars": polars.DataFrame(FRAME).with_columns(polars.col("plot").cast(str).cast(polars.Categorical)),
    }


@pytest.fixture(scope="module")
def plain() -> cagp.Model:
    return cagp.fit(ENCODED, Y, **QUICK)


@pytest.mark.parametrize("kind", frames())
def test_the_model_is_that_of_the_features(kind: str, plain: cagp.Model, tmp_path: Path) -> None:
    frame = frames()[kind]
    model = cagp.fit(frame, Y, like=frame if kind == "objects" else None, **QUICK)
    assert model.column_names == FEATURES
    np.testing.assert_array_equal(model.X.numpy(), ENCODED)
    if kind != "objects":  # the last digits decide where an optimiser stops
        np.testing.assert_allclose(model.predict(frame).mean, plain.predict(ENCODED).mean, atol=1e-3)
    assert "'soil' holds 3 categories ('clay', 'peat', 'sand')" in " ".join(model.story.split())
    mean = model.predict(ENCODED).mean
    np.testing.assert_allclose(model.predict(frame).mean, mean, atol=1e-4)
    np.testing.assert_allclose(
        model.predict(
            pd.DataFrame(ENCODED, columns=FEATURES).drop(columns="when").assign(when=FRAME["when"])[FEATURES]
        ).mean,
        mean,
    )
    model.save(tmp_path / "model")
    loaded = cagp.load(tmp_path / "model")
    assert loaded.encodings == model.encodings
    np.testing.assert_allclose(loaded.predict(frame).mean, mean, atol=1e-4)
    named = cagp.saving.About(features=tuple(FEATURES), target="y")
    assert cagp.load(model.save(tmp_path / "named", about=named)).encodings == model.encodings
    more = loaded.with_more(frame[:2], Y[:2])
    np.testing.assert_array_equal(more.X.numpy()[-2:], ENCODED[:2])


def test_the_same_model_from_the_command_line(plain: cagp.Model, tmp_path: Path) -> None:
    data, folder = tmp_path / "data.csv", tmp_path / "model"
    FRAME.assign(y=Y).to_csv(data, index=False)
    how = "--categories plot --kernel matern32 --no-uncertainty --no-varying --no-rotate --no-report --quiet"
    done = CliRunner().invoke(app, ["fit", str(data), "--target", "y", "--out", str(folder), *how.split()])
    assert done.exit_code == 0, done.output
    theirs, frame = cagp.load(folder), frames()["pandas"]
    assert theirs.column_names == FEATURES
    np.testing.assert_allclose(theirs.predict(frame).mean, plain.predict(ENCODED).mean, atol=1e-3)
    # and the other way round: the folder of a model of a frame takes the table
    cagp.fit(frame, Y, **QUICK).save(folder, overwrite=True)
    out = tmp_path / "out.csv"
    done = CliRunner().invoke(app, ["predict", str(folder), str(data), "--out", str(out), "--quiet"])
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(pd.read_csv(out)["mean"], plain.predict(ENCODED).mean, atol=1e-3)


REFUSED_AT_FIRST = {
    "too many": ({"soil": [f"s{i % (MOST_LEVELS + 1)}" for i in range(2 * N)][:N]}, "51 different texts, too many"),
    "all differ": ({"soil": [f"s{i}" for i in range(20)] + [None] * (N - 20)}, "its 20 texts all differ.*astype"),
    "one": ({"soil": "clay"}, "column 'soil' of X has one category only, 'clay'; leave the column out$"),
    "dates as text": ({"soil": ["2024-04-03", "2024-04-04"] * (N // 2)}, r"pd.to_datetime\(X\['soil'\]\)"),
    "dates of Python": ({"soil": [date(2024, 4, 3), date(2024, 4, 4)] * (N // 2)}, r"pd.to_datetime\(X\['soil'\]\)"),
    "numbers as text": ({"soil": ["1.5", "none"] * (N // 2)}, "holds 'none' at index 1, text among numbers"),
    "missing": ({"soil": [None, *SOILS[1:]]}, "column 'soil' of X has 1 missing values, the first at index 0"),
    "clash": ({"soil=peat": 1.0}, "two features of the same name"),
}


@pytest.mark.parametrize("case", REFUSED_AT_FIRST)
def test_what_cannot_be_fitted_to_is_refused(case: str) -> None:
    changed, words = REFUSED_AT_FIRST[case]
    with pytest.raises(InputError, match=words):
        cagp.fit(FRAME.assign(**changed), Y, **QUICK)


REFUSED_LATER: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unseen": (lambda f: f.assign(soil=["clay", "gravel"]), "holds 'gravel' at index 1.*never seen.*'clay', 'peat'"),
    "missing": (lambda f: f.assign(soil=["clay", np.nan]), "1 missing values, the first at index 1"),
    "no truth": (lambda f: f.assign(wet=[0.0, 0.5]), "'wet' of X_test holds '0.5' at index 1, where the model has yes"),
    "no date": (lambda f: f.assign(when=[19000, 19001]), "holds 19000 at index 0, where the model has dates"),
    "order": (lambda f: f[f.columns[::-1]], r"X_test\[\['x', 'soil', 'wet', 'when', 'plot'\]\]"),
    "without": (lambda f: f.drop(columns="wet"), "X_test has the columns"),
    "no text": (
        lambda f: f.assign(x=["a", "b"]),
        "'x' of X_test holds 'a' at index 0, text where the model has numbers",
    ),
    "a text": (lambda f: f.assign(x=["1", "b"]), "'x' of X_test holds 'b' at index 1, text .*; correct it"),
    "numbers as text": (lambda f: f.assign(x=["1", "2"]), "holds '1' at index 0, .* pd.to_numeric$"),
    "date": (lambda f: f.assign(x=f["when"]), "holds '20.*' at index 0, a date, where the model has numbers"),
}


@pytest.mark.parametrize("case", REFUSED_LATER)
def test_what_cannot_be_predicted_at_is_refused(case: str) -> None:
    change, words = REFUSED_LATER[case]
    few = cagp.CAGPRegressor(cagp.Matern32(1.0), optimizer=None).fit(frames()["pandas"], Y).model_
    with pytest.raises(InputError, match=words):
        few.predict(change(FRAME[:2].assign(plot="1")))
    with pytest.raises(InputError, match=words.replace("X_test", "like")):
        few.left_out(like=change(FRAME[:2].assign(plot="1")))


def test_of_many_categories_a_refusal_names_the_first() -> None:
    frame = pd.DataFrame({"x": np.arange(40.0), "agent": [f"agent {i % 20:02}" for i in range(40)]})
    few = cagp.CAGPRegressor(cagp.Matern32(1.0), optimizer=None).fit(frame, np.arange(40.0)).model_
    with pytest.raises(
        InputError, match=r"'agent 99'.*it knows 'agent 00', .*'agent 05', …; leave .* join rare"
    ) as found:
        few.predict(frame[:1].assign(agent="agent 99"))
    assert "agent 06" not in str(found.value)


def test_sparse_points_are_refused() -> None:
    import scipy.sparse

    with pytest.raises(InputError, match=r"X is sparse, csr_array.*write X.toarray\(\)"):
        cagp.fit(scipy.sparse.csr_array(ENCODED), Y)


@pytest.mark.parametrize("made", [pd.DataFrame, pa.Table.from_pandas])
def test_what_is_predicted_may_be_a_column_of_the_frame(made: Callable[[pd.DataFrame], Any]) -> None:
    both = FRAME[["x", "plot"]].assign(y=Y)
    expected = cagp.fit(FRAME[["x", "plot"]], Y, **QUICK).predict(FRAME[["x", "plot"]])
    model = cagp.fit(made(both), "y", **QUICK)
    np.testing.assert_allclose(model.predict(made(both[["x", "plot"]])).mean, expected.mean, rtol=1e-9)
    with pytest.raises(InputError, match=r"take these alone: X_test\[\['x', 'plot'\]\]"):
        model.predict(made(both))
    with pytest.raises(InputError, match="add 'plot'"):
        model.predict(made(both[["x", "y"]]))
    several = cagp.fit(made(both.assign(z=-Y)), ["y", "z"], together=False, **QUICK)
    assert [*several.names] == ["y", "z"]
    np.testing.assert_allclose(several["y"].predict(made(both[["x", "plot"]])).mean, expected.mean, rtol=1e-9)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"y='price' names a column .* has the columns \['x', 'soil'\]"):
        cagp.fit(FRAME[["x", "soil"]], "price")
    with pytest.raises(InputError, match="y='price' names a column of a data frame, and X is no data frame"):
        cagp.fit(ENCODED, "price")
    with pytest.raises(InputError, match=r"y=\['x', 'price'\] names a column"):
        cagp.fit(FRAME[["x", "soil"]], ["x", "price"])


def test_names_of_columns_that_are_no_texts() -> None:
    numbered = pd.DataFrame({0: FRAME["x"], 1: Y})
    assert cagp.fit(numbered, "1", **QUICK).story.startswith("Data")
    expected = cagp.fit(FRAME[["x"]], Y, **QUICK).predict([[0.5]]).mean
    layered = pd.DataFrame({("a", "x"): FRAME["x"], ("t", "y"): Y})
    assert cagp.fit(layered, "('t', 'y')", **QUICK).predict([[0.5]]).mean == pytest.approx(expected)
    assert cagp.fit(FRAME[["x"]].assign(y=Y), ["y"], **QUICK).predict([[0.5]]).mean == pytest.approx(expected)
    several = cagp.fit(FRAME[["x"]], [np.array([y, 1 - y]) for y in Y], together=False, **QUICK)  # no names
    assert len([*several.names]) == 2
