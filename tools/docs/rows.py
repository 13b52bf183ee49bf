# SPDX-License-Identifier: Apache-2.0
"""The rows of a figure, and cells that several tables share."""

from docs.markdown import percent

# A prediction within a tenth of the paper's value counts as agreement.
AGREES_WITHIN = 0.1


class Rows:
    """The rows of one figure."""

    def __init__(self, rows: list[dict]):
        self.rows = rows

    def at(self, name: str, x: float) -> dict:
        for row in self.rows:
            if row["series"] == name and row["x"] == x:
                return row
        raise KeyError(f"no row '{name}' at {x}")

    def here(self, name: str, x: float) -> float:
        return self.at(name, x)["here"]

    def xs(self, name: str) -> list[float]:
        return [row["x"] for row in self.rows if row["series"] == name]


def percents(value: float) -> str:
    """Returns a value that is a percentage already."""
    return f"{value:.1f} %"


def only(results: dict):
    """Returns the one result of a view that reads one file."""
    (content,) = results.values()
    return content


def verdict_of(ratios: list[float], otherwise: str) -> str:
    worst = max(abs(ratio - 1) for ratio in ratios)
    if worst <= AGREES_WITHIN:
        return f"agrees within {percent(worst, 2)}"
    return otherwise
