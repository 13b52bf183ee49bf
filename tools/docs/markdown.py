# SPDX-License-Identifier: Apache-2.0
"""Writes numbers and tables as Markdown."""

NONE = "–"


def number(value, digits: int = 4) -> str:
    """Returns a measured value with so many significant digits; an integer has no decimals."""
    if value is None:
        return NONE
    if value == int(value):
        return str(int(value))
    return f"{value:.{max(0, digits - _whole_digits(abs(value)))}f}"


def plain(value) -> str:
    """Returns a value that was set, not measured, without zeros at its end."""
    return NONE if value is None else f"{value:g}"


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
    """Returns values with commas between."""
    return ", ".join(write(value) for value in values)


def percent(share: float, digits: int = 4) -> str:
    """Returns a share with so many significant digits at most."""
    return f"{share * 100:.{digits}g} %"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table. Every row has as many cells as the head."""
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"{len(row)} cells beside a head of {len(head)}: {row}")
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
