# SPDX-License-Identifier: Apache-2.0
"""Writes numbers and tables as Markdown."""

NONE = "–"


def number(value, digits: int = 4) -> str:
    """Returns a value with so many significant digits, without exponent or trailing zeros."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    decimals = max(0, digits - _whole_digits(abs(value)))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _whole_digits(value: float) -> int:
    """Returns the digits before the decimal point; 0 or less for values below 1."""
    digits = 0
    while value >= 1:
        value /= 10
        digits += 1
    while value < 0.1 and digits > -12:
        value *= 10
        digits -= 1
    return digits


def fixed(value, decimals: int = 2) -> str:
    """Returns a value with so many decimals; ratios keep their trailing zeros."""
    return NONE if value is None else f"{value:.{decimals}f}"


def spread(value, low, high) -> str:
    """Returns "0.84 (0.81 - 0.86)"."""
    if value is None:
        return NONE
    return f"{value:.2f} ({low:.2f} - {high:.2f})"


def series(values, write=fixed) -> str:
    """Returns values with commas between; equal texts in a row stand once."""
    texts = [write(value) for value in values]
    kept = [text for at, text in enumerate(texts) if at == 0 or text != texts[at - 1]]
    return ", ".join(kept)


def percent(share: float, digits: int = 4) -> str:
    return f"{number(share * 100, digits)} %"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table. Every row has as many cells as the head."""
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"{len(row)} cells beside a head of {len(head)}: {row}")
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
