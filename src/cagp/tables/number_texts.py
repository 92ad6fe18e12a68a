"""Numbers as people write them: with thousands separators, with decimal commas."""

from __future__ import annotations

from typing import Any

_SPACES = "[ '’\u00a0\u202f]"
_POINT = r"^[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?$"
_COMMA = rf"^[+-]?(\d{{1,3}}((\.|{_SPACES})\d{{3}})+|\d*)(,\d*)?([eE][+-]?\d+)?$"
_SPACED = rf"^[+-]?(\d{{1,3}}({_SPACES}\d{{3}})+|\d*)(\.\d*)?([eE][+-]?\d+)?$"


def as_numbers(texts: Any, separated_by_comma: bool, decimal: str) -> tuple[Any, str]:
    """An Arrow column of trimmed texts as float64, and what was assumed, in words; None where not all are numbers.

    In a file that is separated by commas "1,234" is taken for 1234, in others for 1.234: the comma is the decimal one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == ",":
        ways = [(_COMMA, True, "decimal commas and thousands separators")]
    else:
        try:
            return texts.cast(pa.float64()), ""
        except pa.ArrowInvalid:
            pass
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
