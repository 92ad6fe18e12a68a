"""Numbers and names as a person would write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

BEYOND = "longer than the data reach"
BESIDES = "where only its relation to the standard deviation is known"  # how much f varies there
FAR = 10.0  # a lengthscale of so many ranges of the data is told from a longer one by nothing


def number(value: float, digits: int = 3) -> str:
    """``value`` with so many significant digits, without an exponent where that stays readable."""
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    rounded = float(f"{value:.{digits - 1}e}")
    if size < -4 or size >= 7:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{mantissa} · 10{power}".replace("-", "−")
    size = math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits - 1 - size)}f}".replace("-", "−")


def datum(value: float) -> str:
    """A value of the data: whole numbers stay whole, others get four digits."""
    if abs(value) < 1e7 and abs(value - round(value)) <= 1e-12 * abs(value):  # a transform and back rounds
        return f"{round(value):,}".replace("-", "−")
    text = number(value, 4)
    return text.rstrip("0").rstrip(".") if "." in text and "·" not in text else text


def with_error(value: float, error: float | None) -> str:
    """``value ± error``, both to the second digit of the error; a value below its error keeps two digits."""
    if error is None:
        return number(value)
    if 0 < abs(value) < error < math.inf:
        return f"{number(value, 2)} ± {number(error, 2)}"
    if not math.isfinite(error) or error == 0:
        return f"{number(value)} ± {'unlimited' if error == math.inf else number(error)}"
    place = math.floor(math.log10(abs(error))) - 1
    if place > 0 or place < -6 or abs(value) >= 1e7:
        return f"{number(value)} ± {number(error, 2)}"
    return f"{value:,.{-place}f} ± {error:,.{-place}f}".replace("-", "−")


def with_unit(text: str, unit: str) -> str:
    """``text`` followed by its unit, where it has one."""
    return f"{text} {unit}" if unit else text


def squared(unit: str) -> str:
    """The unit of a variance."""
    if not unit:
        return ""
    return f"({unit})²" if any(sign in unit for sign in " /·^²³⁻") else f"{unit}²"


def percent(share: float) -> str:
    """A share as a percentage: two digits below 10%, none above, and never 0% or 100% for what is not."""
    value = 100 * share
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0%"
    if abs(value) < 0.01:
        return "below 0.01%"
    if 99.5 < value < 100:
        return f"{value:.4g}%" if value < 99.995 else "almost 100%"
    return f"{value:.0f}%" if abs(value) >= 10 else f"{value:.2g}%"


def coverage_percent(share: float) -> str:
    """A coverage as a percentage with one decimal: 94.7%."""
    return f"{100 * share:.1f}%"


def listed(words: Sequence[str]) -> str:
    """Words in a row: "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def duration(seconds: float) -> str:
    """Seconds roughly, in words: "20 seconds", "3 minutes", "5 hours"."""
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}s"
    return f"{max(1, round(seconds))} seconds" if seconds > 1.5 else "a second"


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Each name in at most ``most`` characters, an ellipsis for what was cut; different names stay different.

    >>> shortened(["Cement (component 1)(kg in a m^3 mixture)", "Age (day)"], 20)
    ['Cement…', 'Age (day)']
    >>> shortened(["rainfall at station 1", "rainfall at station 2"], 16)
    ['rainfal…tation 1', 'rainfal…tation 2']
    """

    def cut(name: str) -> str:
        head = name.split("(")[0].strip()
        if 3 <= len(head) < most:
            return f"{head}…"
        words = name[: most - 1].rsplit(" ", 1)[0]
        return f"{words if len(words) > most // 2 else name[: most - 1]}…"

    def both_ends(name: str) -> str:
        half = (most - 1) // 2
        return f"{name[:half]}…{name[half + 1 - most :]}"

    for shorten in (cut, both_ends):
        short = [name if len(name) <= most else shorten(name) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    ends = [f"…{i + 1}" for i in range(len(names))]
    return [name if len(name) <= most else name[: most - len(end)] + end for name, end in zip(names, ends, strict=True)]
