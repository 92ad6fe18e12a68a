"""Numbers and dates as people write them: 1,234.5 or 1.234,5; 2024-04-03, 3.4.2024 or 04/03/2024 14:30."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..errors import TableError
from .table import RawColumns, coded, missing_in

_SPACES = "[ '’\u00a0\u202f]"
_POINT = r"^[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?$"
_COMMA = rf"^[+-]?(\d{{1,3}}((\.|{_SPACES})\d{{3}})+|\d*)(,\d*)?([eE][+-]?\d+)?$"
_SPACED = rf"^[+-]?(\d{{1,3}}({_SPACES}\d{{3}})+|\d*)(\.\d*)?([eE][+-]?\d+)?$"

_TIME = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?\s*(?P<half>[AaPp][Mm])?)?"
    r"\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?$"
)
_FORMS = {
    "year first": r"^(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})",
    "dots": r"^(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
    "slashes": r"^(?P<one>\d{1,2})[-/](?P<other>\d{1,2})[-/](?P<year>\d{4})",
}
TWO_DIGIT_YEAR = re.compile(r"\d{1,2}[-./]\d{1,2}[-./]\d{2}(\s.*)?")
"""A date whose century is not said."""


def as_numbers(texts: Any, separated_by_comma: bool, decimal: str) -> tuple[Any, str]:
    """An Arrow column of trimmed texts as float64, and what was assumed, in words; None where not all are numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == ",":
        ways = [(_COMMA, True, "decimal commas and thousands separators")]
    else:
        try:
            return texts.cast(pa.float64()), ""
        except pa.ArrowInvalid:
            pass
        # "1,234" is 1234 in a file that is separated by commas, and 1.234 in others
        thousands, comma = (_POINT, False, "thousands separators"), (_COMMA, True, "decimal commas")
        ways = [(_SPACED, False, "thousands separators"), *([thousands, comma] if separated_by_comma else [comma])]
    for pattern, commas, words in ways:
        if separated_by_comma and commas and not pc.any(pc.match_substring(texts, ",")).as_py():
            continue
        if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            continue
        bare = pc.replace_substring_regex(texts, r"[.]" if commas else ",", "")
        bare = pc.replace_substring_regex(bare, _SPACES, "")
        try:
            return pc.replace_substring(bare, ",", ".").cast(pa.float64()), words
        except pa.ArrowInvalid:
            continue
    return None, ""


def form_of(text: str) -> str | None:
    """The name of the form that a text has as a date; None where it is none."""
    return next((name for name, form in _FORMS.items() if re.match(form + _TIME, text)), None)


def dates_in(
    raw: RawColumns, name: str, texts: Any, day_first: bool | None, remedy: str
) -> tuple[np.ndarray, bool | None, bool]:
    """The moments (n,) in an Arrow column of texts in one form, whether these have the day first, and a time zone.

    ``day_first``, or else the ``remedy``, is for slashes that do not say. With a time zone the moments are in UTC.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def refuse(row: int, words: str) -> TableError:
        return raw.refused(name, row, texts[row].as_py(), words)

    there = ~missing_in(texts)
    form = form_of(texts[int(there.argmax())].as_py())
    fields = None if form is None else pc.extract_regex(texts, _FORMS[form] + _TIME)
    wrong = there if fields is None else there & fields.is_null().to_numpy(zero_copy_only=False)
    if fields is None or wrong.any():
        alike = "a date" if form is None else f"a date in the form of {texts[int(there.argmax())].as_py()!r}"
        raise refuse(int(wrong.argmax()), f"which is not {alike}; write all dates alike, best as 2024-04-03")

    def whole(field: str, otherwise: int) -> np.ndarray:
        found = pc.fill_null(pc.struct_field(fields, field), "")
        found = pc.if_else(pc.equal(found, ""), str(otherwise), found)
        return np.asarray(found.cast(pa.int64()).to_numpy())

    def parts(field: str) -> tuple[np.ndarray, np.ndarray]:
        """The different texts in a field, in small letters and "" for none, and which of them each row (n,) has."""
        found, which = coded(pc.fill_null(pc.utf8_lower(pc.struct_field(fields, field)), ""))
        return np.array(found), which

    year = whole("year", 1970)
    if form == "slashes":
        one, other = whole("one", 1), whole("other", 1)
        found = True if (one > 12).any() else False if (other > 12).any() else day_first
        if found is None:
            raise refuse(int(there.argmax()), f"where day and month cannot be told apart; {remedy}")
        day_first = found if day_first is None else day_first
        day, month = (one, other) if day_first else (other, one)
    else:
        day, month, day_first = whole("day", 1), whole("month", 1), None
    start = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    moment = start.astype("datetime64[D]") + (day - 1)
    hour, minute = whole("hour", 0), whole("minute", 0)
    impossible = (month < 1) | (month > 12) | (day < 1) | (moment.astype("datetime64[M]") != start)
    impossible |= (hour > 24) | (minute > 59)
    if impossible.any():
        read = "" if day_first is None else f" with the {'day' if day_first else 'month'} first"
        raise refuse(int(impossible.argmax()), f"which is no date{read}; correct it")
    half, which = parts("half")
    hour = np.where(np.isin(half, ["am", "pm"])[which], hour % 12 + 12 * (half == "pm")[which], hour)
    second = pc.replace_substring(pc.fill_null(pc.struct_field(fields, "second"), "0"), ",", ".")
    second = pc.if_else(pc.equal(second, ""), "0", second).cast(pa.float64()).to_numpy()
    zones, which = parts("zone")
    local = (zones == "")[which] & there
    zoned = bool((there & ~local).any())
    if zoned and local.any():
        raise refuse(int(local.argmax()), "without a time zone, which others have; write all alike")
    minute = minute + 60 * hour - np.array([_minutes(zone) for zone in zones.tolist()])[which]
    micro = np.round(second * 1e6).astype(np.int64) + 60_000_000 * minute
    values = moment.astype("datetime64[us]") + micro.astype("timedelta64[us]")
    return np.where(there, values, np.datetime64("NaT")), day_first, zoned


def _minutes(zone: str) -> int:
    """How far a time zone is ahead of UTC."""
    if zone in ("", "z", "utc"):
        return 0
    sign, digits = (-1 if zone[0] == "-" else 1), zone[1:].replace(":", "")
    return sign * (60 * int(digits[:2]) + int(digits[2:]))
