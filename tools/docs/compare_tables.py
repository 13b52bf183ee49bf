# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/experiments.md that compare back ends: results of `tributary lab compare`.

A result is a list of cells with model, workers, loss, straggling and backend.
"""

from docs.markdown import NONE, number, percent, table
from docs.rows import only


class Cells:
    """The cells of one comparison."""

    def __init__(self, cells: list[dict]):
        self.cells = cells

    def at(self, backend: str, **case) -> dict:
        for cell in self.cells:
            if cell["backend"] == backend and all(cell[key] == case[key] for key in case):
                return cell
        raise KeyError(f"no cell of '{backend}' with {case}")

    def values(self, key: str) -> list:
        """Returns the different values of a key, in the order of the file."""
        return list(dict.fromkeys(cell[key] for cell in self.cells))


def overview(cells: Cells) -> list[str]:
    waits = _cell_with_error(cells.at("switchml-256", straggling=0.16))
    trio = _cell_with_error(cells.at("trio-ml", straggling=0.16))
    return ["[compare](#comparing)", "ResNet50 with 16 % straggling, nine back ends", NONE,
            f"{trio} ms on Trio-ML, {waits} on SwitchML", NONE,
            "timeouts of 10 ms cost as much as they save of so short an iteration"]


def _by_case(cells: Cells, key: str, head: str, write) -> str:
    """Returns a table with a line for each value of `key` and a column for each back end."""
    backends = cells.values("backend")
    lines = [[write(value), *[number(cells.at(backend, **{key: value})["iteration_ms"])
                              for backend in backends]]
             for value in cells.values(key)]
    return table([head, *backends], lines)


def compare(results: dict) -> str:
    cells = Cells(only(results))
    calm, straggling = cells.values("straggling")
    lines = []
    for backend in cells.values("backend"):
        cell = cells.at(backend, straggling=straggling)
        shares = [percent(cell[f"{share}_fraction"], 3) for share in ("degraded", "skipped", "missed")]
        lines.append([backend, number(cells.at(backend, straggling=calm)["iteration_ms"]),
                      _cell_with_error(cell), *shares])
    return table(["back end", f"{percent(calm, 2)} straggling, ms", f"{percent(straggling, 2)}, ms",
                  "degraded", "skipped", "missed"], lines)


def _cell_with_error(cell: dict) -> str:
    """Returns "107.2 ± 1.3", with the standard error; a back end without chance has none."""
    error = cell["standard_error"]
    mean = number(cell["iteration_ms"])
    return f"{mean} ± {error:.2g}" if error else mean


def compare_network(results: dict) -> str:
    return _by_case(Cells(only(results)), "workers", "workers", str)


def compare_loss(results: dict) -> str:
    return _by_case(Cells(only(results)), "loss", "loss on each link", lambda p: percent(p, 2))


def compare_time_outs(results: dict) -> str:
    cells = Cells(only(results))
    backends = cells.values("backend")

    def line(text: str, write) -> list[str]:
        return [text, *[write(cells.at(backend)) for backend in backends]]

    def tofino(key: str):
        return lambda cell: number(cell[key], 3)

    return table(["", *backends], [
        line("iteration, ms", _cell_with_error),
        line("results without every worker, %", lambda cell: number(cell["degraded_fraction"] * 100, 3)),
        line("results of blocks that some worker did not compute, %",
             lambda cell: number(cell["skipped_fraction"] * 100, 3)),
        line("sums that never reach a late worker, %",
             lambda cell: number(cell["missed_fraction"] * 100, 3)),
        line("stages", tofino("stages")),
        line("stateful ALUs", tofino("stateful_alus")),
        line("SRAM blocks", tofino("sram_blocks")),
        line("passes a packet, the sweeps' included", tofino("passes_per_packet")),
        line("memory, MB", lambda cell: number(cell["memory_mb"], 3)),
    ])
