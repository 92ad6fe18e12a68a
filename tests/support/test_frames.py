"""Data frames of several libraries come out as the same numbers, and what is no number is refused by its column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cagp
from cagp.errors import InputError, InputTypeError
from cagp.estimator import CAGPRegressor
from cagp.support.validation import column_names, points

N = 20
RNG = np.random.default_rng(0)
DATES = pd.date_range("2024-03-01 06:00", periods=N, freq="7h")
FRAME = pd.DataFrame({"a": RNG.random(N), "i": RNG.integers(0, 9, N), "f": RNG.random(N) < 0.5, "t": DATES})
MEANT = np.column_stack(
    [FRAME["a"], FRAME["i"], FRAME["f"], (DATES - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")]
).astype(float)
Y = RNG.random(N)
PRIOR = cagp.Prior(cagp.Matern32(2.0, 1.0), noise_variance=0.01)


class Series:
    """As little as polars' columns and those of pandas have in common."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __getitem__(self, rows: slice) -> Series:
        return Series(self._values[rows])

    def to_numpy(self) -> np.ndarray:
        return self._values


class Frame:
    """As little as polars' frames and those of pandas have in common."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> Series:
        return Series(np.asarray(self._columns[name]))


def frames() -> dict[str, Any]:
    zoned = FRAME.assign(t=FRAME["t"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    made = {
        "pandas": FRAME,
        "pandas, nullable": FRAME.convert_dtypes(),
        "pandas, zoned": zoned,
        "pyarrow": pa.table(FRAME),
        "pyarrow, zoned": pa.Table.from_pandas(zoned),
        "another": Frame({name: FRAME[name].to_numpy() for name in FRAME}),
    }
    try:
        import polars
    except ImportError:
        return made
    return {**made, "polars": polars.DataFrame({name: FRAME[name].to_numpy() for name in FRAME})}


@pytest.mark.parametrize("kind", frames())
def test_the_same_numbers_from_every_frame(kind: str) -> None:
    frame = frames()[kind]
    assert column_names(frame) == ["a", "i", "f", "t"]
    np.testing.assert_allclose(points(frame, "X").numpy(), MEANT, rtol=1e-14)
    model = PRIOR.condition(frame, Y, "cholesky")
    assert model.column_names == ["a", "i", "f", "t"]
    np.testing.assert_allclose(model.predict(frame).mean, PRIOR.condition(MEANT, Y, "cholesky").predict(MEANT).mean)


@pytest.mark.parametrize("kind", ["pandas", "pandas, zoned", "pyarrow"])
def test_the_estimator_counts_days_and_keeps_names(kind: str) -> None:
    frame = frames()[kind]
    regressor = cagp.CAGPRegressor(PRIOR.kernel, noise_variance=0.01, optimizer=None).fit(frame, Y)
    assert list(regressor.feature_names_in_) == ["a", "i", "f", "t"]
    assert f"'t' holds dates: days since 1970-01-01{', times in UTC' * (', zoned' in kind)}." in regressor.fit_message_
    assert regressor.model_.column_names == ["a", "i", "f", "t"]
    np.testing.assert_allclose(regressor.X_train_, MEANT, rtol=1e-14)
    plain = cagp.CAGPRegressor(PRIOR.kernel, noise_variance=0.01, optimizer=None).fit(MEANT, Y)
    np.testing.assert_allclose(regressor.predict(frame), plain.predict(MEANT))


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_dates_with_a_time_zone_and_without_are_not_mixed(kind: str) -> None:
    plain, zoned = frames()[kind], frames()[f"{kind}, zoned"]
    for train, test, words in [
        (plain, zoned, r"'t' of X has dates with a time zone, those of the model have none.*tz_localize\(None\)"),
        (zoned, plain, r"'t' of X has dates with no time zone, those of the model have one.*tz_localize\(zone\)"),
    ]:
        regressor = cagp.CAGPRegressor(PRIOR.kernel, noise_variance=0.01, optimizer=None).fit(train, Y)
        with pytest.raises(InputError, match=words):
            regressor.predict(test)
        regressor.predict(train)


def test_the_story_tells_how_dates_are_counted() -> None:
    options = {"kernel": "matern32", "uncertainty": False, "recalibrate": False, "progress": False}
    model = cagp.fit(FRAME[["a", "t"]], Y, **options)
    assert "Dates and times in 't' are counted in days since 1970-01-01." in model.record.text
    assert model.column_names == ["a", "t"]


@pytest.mark.parametrize("kind", [each for each in frames() if "zoned" not in each])
def test_dates_and_numbers_are_not_mixed(kind: str) -> None:
    frame = frames()[kind]
    model = PRIOR.condition(frame, Y, "cholesky")
    columns = {name: frame[name].to_numpy() for name in ("a", "i", "f", "t")}
    for name, other, words in [
        ("a", "t", "a date, where the model has numbers"),
        ("t", "a", "where the model has dates"),
    ]:
        with pytest.raises(InputError, match=f"column '{name}' of X_test holds .* at index 0, {words}"):
            model.predict(Frame({**columns, name: columns[other]}))


def test_a_frame_without_columns_by_name_is_refused() -> None:
    class Row:
        columns = ("a",)

        def __len__(self) -> int:
            return N

        def to_numpy(self) -> np.ndarray:
            return MEANT[:, :1]

    with pytest.raises(InputTypeError, match="Row has columns, and does not give them by name"):
        cagp.fit(Row(), Y)


def test_what_is_no_number_is_named() -> None:
    for values, words in [
        (["1", *"x" * (N - 1)], "column 'c' of X .*'x'.*OneHotEncoder"),
        ([2**60] * N, r"column 'c' .*2\*\*53"),
    ]:
        for frame in (FRAME.assign(c=values), pa.table(FRAME.assign(c=values))):
            with pytest.raises((InputError, InputTypeError), match=words):
                PRIOR.condition(frame, Y)
    gap = FRAME.assign(t=FRAME["t"].where(FRAME.index != 3))
    with pytest.raises(InputError, match=r"the first at index \(3, 3\), in column 't'"):
        PRIOR.condition(gap, Y)
    with pytest.raises(InputError, match="in column 'i'"):
        PRIOR.condition(FRAME.assign(i=pd.array([None, *range(N - 1)], dtype="Int64")), Y)


def test_two_columns_of_one_name_are_refused_by_name() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).random((20, 3)), columns=["a", "b", "a"])
    y = frame["b"]
    for fit in (cagp.fit, CAGPRegressor().fit):
        with pytest.raises(InputError, match="X has two columns called 'a'; rename one of them"):
            fit(frame, y)
