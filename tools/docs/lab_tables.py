# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/experiments.md: the papers' figures and the comparisons.

Each view takes the results that its marker names, by name, and returns Markdown. Results of
`tributary lab figure` are lists of rows with figure, series, x, paper, here and unit. Results of
`tributary lab compare` are lists of cells with model, workers, loss, straggling and backend.
"""

from docs.markdown import NONE, fixed, number, percent, plain, series, table

# A prediction within a tenth of the paper's value counts as agreement.
AGREES_WITHIN = 0.1

MODELS = {"resnet50": "ResNet50", "densenet161": "DenseNet161", "vgg11": "VGG11"}


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


def percents(value: float) -> str:
    """Returns a value that is a percentage already."""
    return f"{value:.1f} %"


def only(results: dict):
    """Returns the one result of a view that reads one file."""
    (content,) = results.values()
    return content


# --- The overview --------------------------------------------------------------------------------


def overview(results: dict) -> str:
    head = ["figure", "it shows", "paper", "here", "ratio", "verdict"]
    lines = [
        _trio_12(Rows(results["trio-12"])),
        _trio_13(Rows(results["trio-13"])),
        _trio_14(Rows(results["trio-14"])),
        _trio_15(Rows(results["trio-15"])),
        _trio_16(Rows(results["trio-16"])),
        _switchml_3(Rows(results["switchml-3"])),
        _switchml_6(Rows(results["switchml-6"])),
        _switchml_7(Rows(results["switchml-7"])),
        _switchml_9(Rows(results["switchml-9"])),
        _byteps_12(Rows(results["byteps-12"])),
        _byteps_13(Rows(results["byteps-13"])),
        _byteps_14(Rows(results["byteps-14"])),
        _byteps_15(Rows(results["byteps-15"])),
        _byteps_16(Rows(results["byteps-16"])),
        _compare(Cells(results["compare"])),
    ]
    return table(head, lines)


def _verdict(ratios: list[float], otherwise: str) -> str:
    worst = max(abs(ratio - 1) for ratio in ratios)
    if worst <= AGREES_WITHIN:
        return f"agrees within {percent(worst, 2)}"
    return otherwise


def _beside_paper(rows: list[dict], write) -> tuple[list[str], list[float]]:
    """Returns the cells paper, here and ratio, and the ratios."""
    ratios = [row["here"] / row["paper"] for row in rows]
    cells = [
        series([row["paper"] for row in rows], write),
        series([row["here"] for row in rows], write),
        series(ratios),
    ]
    return cells, ratios


def _trio_12(rows: Rows) -> list[str]:
    found = [rows.at(f"{model} speed-up", 90) for model in MODELS]
    cells, ratios = _beside_paper(found, fixed)
    verdict = _verdict(ratios, "the direction agrees, the size does not: it follows from Figure 13")
    return ["[trio-12](#trio-figure-12-time-to-accuracy)",
            "speed-up of training to 90 % accuracy, three networks", *cells, verdict]


def _trio_13(rows: Rows) -> list[str]:
    found = [rows.at(f"{model} speed-up", 16) for model in MODELS]
    cells, ratios = _beside_paper(found, fixed)
    verdict = _verdict(ratios, "the direction agrees, the size does not: 10 ms time-outs are long "
                               "beside our short iterations")
    return ["[trio-13](#trio-figure-13-stragglers-and-iteration-time)",
            "speed-up of an iteration over SwitchML, 16 % straggling", *cells, verdict]


def _trio_14(rows: Rows) -> list[str]:
    name = "longest recovery"
    shares = [rows.here(name, x) / rows.at(name, x)["paper"] for x in rows.xs(name)]
    in_timeouts = [rows.here(name, x) / x for x in rows.xs(name)]
    verdict = "within the bound" if max(shares) <= 1 else "beyond the bound"
    return ["[trio-14](#trio-figure-14-recovery)", "longest recovery from a straggler",
            "at most 2 time-outs", f"{min(in_timeouts):.2f} to {max(in_timeouts):.2f} time-outs",
            f"{min(shares):.2f} to {max(shares):.2f}", verdict]


def _trio_15(rows: Rows) -> list[str]:
    found = [rows.at("latency", 64), rows.at("latency", 1024)]
    cells, ratios = _beside_paper(found, number)
    cells[0] += " us"
    cells[1] += " us"
    verdict = _verdict(ratios, "differs") + "; two assumed numbers are calibrated with these"
    return ["[trio-15](#trio-figure-15-time-in-one-pfe)",
            "latency of one PFE, 64 and 1024 gradients a packet", *cells, verdict]


def _trio_16(rows: Rows) -> list[str]:
    most = rows.here("Trio-ML-1024 throughput", 4096)
    share = rows.here("Trio-ML-1024 throughput", 1024) / most
    return ["[trio-16](#trio-figure-16-the-window)", "throughput of one PFE over the window",
            "at most 6 Gadd/s; 4096 is a good window", f"{fixed(most)} Gadd/s at 4096",
            fixed(most / 6), f"below the bound; a window of 1024 already reaches {percent(share, 2)}"]


def _switchml_3(rows: Rows) -> list[str]:
    found = [rows.at(f"{rate} {system} of the line", 8)
             for system in ("switchml-256", "switchml-64") for rate in ("10G", "100G")]
    shown = [found[0], found[2]]
    cells = [series([row["paper"] for row in shown], lambda v: percent(v, 3)),
             series([row["here"] for row in shown], lambda v: percent(v, 3)),
             series([row["here"] / row["paper"] for row in shown])]
    verdict = _verdict([row["here"] / row["paper"] for row in found], "differs")
    return ["[switchml-3](#switchml-figure-3-elements-a-second)",
            "share of the line rate, packets of 256 and 64 elements", *cells, verdict]


def _switchml_6(rows: Rows) -> list[str]:
    name = "switchml-256 inflation"
    return ["[switchml-6](#switchml-figures-6-and-7-loss)", "time with loss over time without",
            "0.01 % matters little",
            f"{rows.here(name, 0.01):.3f} at 0.01 %, {fixed(rows.here(name, 1))} at 1 %", NONE,
            "agrees; the paper's text gives no value"]


def _switchml_7(rows: Rows) -> list[str]:
    calm = rows.here("loss 0 %: time", 0)
    lossy = rows.here("loss 1 %: time", 1)
    return ["[switchml-7](#switchml-figures-6-and-7-loss)", "packets sent over time, with loss",
            "close to the ideal rate; 1 % ends later",
            f"1 % ends after {number(lossy, 3)} ms, no loss after {number(calm, 3)}", NONE,
            "agrees; the paper's text gives no value"]


def _switchml_9(rows: Rows) -> list[str]:
    best = min(rows.here("time", x) for x in rows.xs("time"))
    enough = min(x for x in rows.xs("time") if rows.here("time", x) <= best * 1.001)
    return ["[switchml-9](#switchml-figure-9-the-pool)", "slots that fill 100 Gbit/s",
            "512 chosen", f"{plain(enough)} enough", fixed(enough / 512),
            "fewer slots: the modelled hosts' round trips are shorter"]


def _byteps_12(rows: Rows) -> list[str]:
    name = "sharded, of the optimum"
    shares = [rows.here(name, k) / 100 for k in rows.xs(name)]
    return ["[byteps-12](#byteps-figure-12-goodput-over-spare-machines)",
            "goodput over the optimum of equation 6, 0 to 8 spare machines", "91 % to 99 %",
            f"{percent(min(shares), 3)} to {percent(max(shares), 3)}", NONE,
            "within the paper's range for every number of machines"]


def _byteps_13(rows: Rows) -> list[str]:
    found = [rows.at(f"NVLink, {name}", 8) for name in ("over no spare machine", "over all-reduce")]
    ratios = [row["here"] / row["paper"] for row in found]
    return ["[byteps-13](#byteps-figure-13-training-over-spare-machines)",
            "training speed with 8 spare machines over none, and over all-reduce",
            "up to " + series([row["paper"] for row in found]),
            series([row["here"] for row in found]), series(ratios),
            _verdict(ratios, "differs")]


def _byteps_14(rows: Rows) -> list[str]:
    row = rows.at("PCIe, CPU-assisted over all GPUs", 0)
    return ["[byteps-14](#byteps-figure-14-strategies-inside-machines)",
            "training speed, best strategy inside a machine over the common one, PCIe only",
            "up to " + fixed(row["paper"]), fixed(row["here"]), fixed(row["here"] / row["paper"]),
            "lower: here the network hides most of the difference"]


def _byteps_15(rows: Rows) -> list[str]:
    names = ("ResNet-50, with spare machines", "ResNet-50, all-reduce", "UGATIT, with spare machines")
    found = [rows.at(name, 256) for name in names]
    return ["[byteps-15](#byteps-figures-15-and-16-up-to-256-gpus)",
            "scaling on 256 GPUs: ResNet-50, its all-reduce, UGATIT",
            series([row["paper"] for row in found], percents),
            series([row["here"] for row in found], percents),
            series([row["here"] / row["paper"] for row in found]),
            "higher: costs that do not follow from bytes are not modelled"]


def _byteps_16(rows: Rows) -> list[str]:
    return ["[byteps-16](#byteps-figures-15-and-16-up-to-256-gpus)",
            "scaling of BERT-large on 256 GPUs", "at least 91.6 %",
            percents(rows.here("BERT-large, with spare machines", 256)), NONE,
            "above the bound"]


def _compare(cells: Cells) -> list[str]:
    waits = cells.at("switchml-256", straggling=0.16)["iteration_ms"]
    trio = cells.at("trio-ml", straggling=0.16)["iteration_ms"]
    return ["[compare](#5-comparing)", "ResNet50 with 16 % straggling, nine back ends", NONE,
            f"{number(trio, 3)} ms on Trio-ML, {number(waits, 3)} on SwitchML", NONE,
            "only back ends that time out avoid the wait"]


# --- Figures of the Trio paper -------------------------------------------------------------------


def trio_15(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for x in rows.xs("latency"):
        cells = [plain(x)]
        for name in ("latency", "rate"):
            row = rows.at(name, x)
            ratio = row["here"] / row["paper"] if row["paper"] else None
            cells += [number(row["paper"]), number(row["here"]), fixed(ratio, 3)]
        lines.append(cells)
    return table(["gradients a packet", "latency in us: paper", "here", "ratio",
                  "rate in gradients/us: paper", "here", "ratio"], lines)


def trio_16(results: dict) -> str:
    rows = Rows(only(results))
    systems = ("Trio-ML-512", "Trio-ML-1024")
    lines = [[plain(x)] + [number(rows.here(f"{system} {what}", x))
                            for system in systems for what in ("latency", "throughput")]
             for x in rows.xs("Trio-ML-512 latency")]
    return table(["window", "512 gradients: latency, us", "throughput, Gadd/s",
                  "1024 gradients: latency, us", "throughput, Gadd/s"], lines)


def trio_14(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for x in rows.xs("longest recovery"):
        longest = rows.at("longest recovery", x)
        lines.append([plain(x), plain(longest["paper"]), number(longest["here"]),
                      fixed(longest["here"] / longest["paper"], 3),
                      number(rows.here("mean recovery", x))])
    return table(["time-out, ms", "paper's bound for the longest, ms", "longest here, ms", "ratio",
                  "mean here, ms"], lines)


def trio_13(results: dict) -> str:
    rows = Rows(only(results))
    systems = ("waiting-switch", "switchml-256", "switchml-256 resending", "trio-ml")
    lines = []
    for model, shown in MODELS.items():
        for x in rows.xs(f"{model} trio-ml"):
            speedup = rows.at(f"{model} speed-up", x)
            lines.append([shown if x == 0 else "", f"{plain(x)} %", number(_ideal(rows, model)),
                          *[number(rows.here(f"{model} {system}", x)) for system in systems],
                          number(speedup["here"]), number(speedup["paper"], 3)])
    return table(["network", "p", "ideal", "waiting switch", "SwitchML-256", "resending", "Trio-ML",
                  "speed-up", "paper"], lines)


def _ideal(rows: Rows, model: str) -> float:
    """Returns the time without stragglers, which one row per network holds."""
    found = [row["here"] for row in rows.rows if row["series"] == f"{model} ideal"]
    return found[0]


def trio_13_timeouts(results: dict) -> str:
    """The sweep's points beside the waiting switch of Figure 13."""
    waits = Rows(results["trio-13"]).here("resnet50 waiting-switch", 16)
    points = results["trio-13-timeouts"]
    means = [point["outcome"]["mean_iteration_ns"] / 1e6 for point in points]
    return table(
        ["`mitigation.timeout_ms`",
         *[plain(point["values"]["mitigation.timeout_ms"]) for point in points]],
        [["mean iteration, ms", *[fixed(mean, 1) for mean in means]],
         [f"speed-up over the waiting switch's {fixed(waits, 1)} ms",
          *[fixed(waits / mean) for mean in means]],
         ["blocks summed without a worker, %",
          *[number(point["outcome"]["degraded_fraction"] * 100, 2) for point in points]]])


def trio_12(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for model, shown in MODELS.items():
        speedup = rows.at(f"{model} speed-up", 90)
        systems = ("waiting-switch", "switchml-256", "switchml-256 resending", "trio-ml")
        lines.append([shown, *[number(rows.here(f"{model} {system}", 90)) for system in systems],
                      number(speedup["here"]), number(speedup["paper"], 3),
                      fixed(speedup["here"] / speedup["paper"], 3)])
    return table(["network", "waiting switch, s", "SwitchML-256, s", "resending, s", "Trio-ML, s",
                  "speed-up", "paper", "ratio"], lines)


# --- Figures of the SwitchML paper ---------------------------------------------------------------


def switchml_3(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for rate in ("10G", "100G"):
        for system in ("switchml-256", "switchml-64", "ps-dedicated", "ps-colocated", "ring"):
            name = f"{rate} {system}"
            xs = rows.xs(name)
            cells = [name, *[number(rows.here(name, x)) for x in xs]]
            if rows.xs(f"{name} of the line"):
                share = rows.at(f"{name} of the line", xs[0])
                most = rows.at(f"{name} of the most", xs[0])
                cells += [percent(share["here"]), percent(share["paper"], 2), percent(most["here"], 3)]
            else:
                cells += [NONE, NONE, NONE]
            lines.append(cells)
    return table(["system", "4 workers", "8 workers", "16 workers", "of the line", "paper",
                  "of the most for such packets"], lines)


def switchml_6(results: dict) -> str:
    rows = Rows(only(results))
    systems = ("switchml-256", "switchml-64", "ring")
    lines = []
    for x in rows.xs("ring time"):
        cells = [f"{plain(x)} %" if x else "0"]
        for system in systems:
            cells += [number(rows.here(f"{system} time", x)),
                      number(rows.here(f"{system} inflation", x))]
        lines.append(cells)
    return table(["loss", *[head for system in systems
                            for head in (f"{system}, ms", "over no loss")]], lines)


def switchml_9(results: dict) -> str:
    rows = Rows(only(results))
    lines = [[plain(x), number(rows.here("time", x), 3), number(rows.here("round trip", x), 3)]
             for x in rows.xs("time")]
    return table(["slots", "time, ms", "round trip, us"], lines)


def byteps_12(results: dict) -> str:
    rows = Rows(only(results))
    ring = rows.here("all-reduce", 0)
    lines = []
    for k in rows.xs("sharded"):
        spare_only = rows.here("spare machines only", k) if k else None
        lines.append([plain(k), number(rows.here("optimum", k)), number(rows.here("sharded", k)),
                      percent(rows.here("sharded, of the optimum", k) / 100, 3),
                      number(spare_only), number(ring)])
    return table(["spare machines", "optimum, Gbit/s", "sharded, Gbit/s", "of the optimum",
                  "spare machines only, Gbit/s", "all-reduce, Gbit/s"], lines)


def byteps_13(results: dict) -> str:
    rows = Rows(only(results))
    machines = ("NVLink", "PCIe")
    lines = []
    for k in rows.xs("NVLink, sharded"):
        line = [plain(k)]
        for machine in machines:
            line.append(number(rows.here(f"{machine}, sharded", k)))
            line += [fixed(rows.here(f"{machine}, over {other}", k))
                     for other in ("no spare machine", "all-reduce")]
        lines.append(line)
    line = ["all-reduce"]
    for machine in machines:
        line += [number(rows.here(f"{machine}, all-reduce", 0)), NONE, NONE]
    lines.append(line)
    head = ["spare machines"]
    for machine in machines:
        head += [f"{machine}, iterations/s", "over none", "over all-reduce"]
    return table(head, lines)


def byteps_14(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for names in (("NVLink, root=2", "NVLink, root=0", "NVLink, all-reduce"),
                  ("PCIe, CPU-assisted", "PCIe, all GPUs", "PCIe, all-reduce")):
        best = rows.here(names[0], 0)
        lines += [[name, number(rows.here(name, 0)), fixed(best / rows.here(name, 0))]
                  for name in names]
    return table(["strategy", "iterations/s", "the machine's best over it"], lines)


def byteps_scaling(results: dict) -> str:
    rows = Rows(only(results))
    models = list(dict.fromkeys(row["series"].split(", ")[0] for row in only(results)))
    systems = ("with spare machines", "without spare machines", "all-reduce")
    lines = []
    for model in models:
        for gpus in rows.xs(f"{model}, all-reduce"):
            line = [model, plain(gpus)]
            line += [percents(rows.here(f"{model}, {system}", gpus)) for system in systems]
            line += [fixed(rows.here(f"{model}, {system} over all-reduce", gpus))
                     for system in systems[:2]]
            lines.append(line)
    return table(["network", "GPUs", "with spare", "without", "all-reduce",
                  "with spare over all-reduce", "without over all-reduce"], lines)


# --- Comparisons ---------------------------------------------------------------------------------


def _by_case(cells: Cells, key: str, head: str, write) -> str:
    """Returns a table with a line for each value of `key` and a column for each back end."""
    backends = cells.values("backend")
    lines = [[write(value), *[number(cells.at(backend, **{key: value})["iteration_ms"])
                              for backend in backends]]
             for value in cells.values(key)]
    return table([head, *backends], lines)


def compare(results: dict) -> str:
    return _by_case(Cells(only(results)), "straggling", "straggling", lambda p: percent(p, 2))


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
        line("iteration, ms", lambda cell: number(cell["iteration_ms"], 3)),
        line("results without every worker, %", lambda cell: number(cell["degraded_fraction"] * 100, 3)),
        line("sums that a late worker gets nowhere, %",
             lambda cell: number(cell["missed_fraction"] * 100, 3)),
        line("stages", tofino("stages")),
        line("stateful ALUs", tofino("stateful_alus")),
        line("SRAM blocks", tofino("sram_blocks")),
        line("passes a packet, the sweeps' included", tofino("passes_per_packet")),
        line("memory, MB", lambda cell: number(cell["memory_mb"], 3)),
    ])


VIEWS = {
    "overview": overview,
    "trio-12": trio_12,
    "trio-13": trio_13,
    "trio-13-timeouts": trio_13_timeouts,
    "trio-14": trio_14,
    "trio-15": trio_15,
    "trio-16": trio_16,
    "switchml-3": switchml_3,
    "switchml-6": switchml_6,
    "switchml-9": switchml_9,
    "byteps-12": byteps_12,
    "byteps-13": byteps_13,
    "byteps-14": byteps_14,
    "byteps-15": byteps_scaling,
    "byteps-16": byteps_scaling,
    "compare": compare,
    "compare-network": compare_network,
    "compare-loss": compare_loss,
    "compare-time-outs": compare_time_outs,
}
