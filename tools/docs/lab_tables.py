# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/experiments.md, docs/trio-figures.md and docs/switchml-figures.md. Comparisons of back ends are in compare_tables.py.

Each view takes the results that its marker names, by name, and returns Markdown. Results of
`tributary lab figure` are lists of rows with figure, series, x, paper, here and unit.
"""

from docs import byteps_tables, compare_tables, study_tables
from docs.markdown import NONE, fixed, number, percent, plain, series, spread, table
from docs.rows import Rows, only, percents, verdict_of

# Suffixes of the series of trio-12 and trio-13: each delay point draws its worker, or not.
READINGS = ("", ", same sleeper")
MODELS = {"resnet50": "ResNet50", "densenet161": "DenseNet161", "vgg11": "VGG11"}


# --- The overview --------------------------------------------------------------------------------


def overview(results: dict) -> str:
    head = ["figure", "it shows", "paper", "here", "ratio", "verdict"]
    lines = [
        _trio_12(Rows(results["trio-12"])),
        _trio_13(Rows(results["trio-13"])),
        _trio_14(Rows(results["trio-14"])),
        _trio_15(Rows(results["trio-15"])),
        _trio_16(Rows(results["trio-16"])),
        overview_switchml_3(Rows(results["switchml-3"])),
        _switchml_6(Rows(results["switchml-6"])),
        _switchml_7(Rows(results["switchml-7"])),
        _switchml_9(Rows(results["switchml-9"])),
        byteps_tables.overview_12(Rows(results["byteps-12"])),
        byteps_tables.overview_13(Rows(results["byteps-13"])),
        byteps_tables.overview_14(Rows(results["byteps-14"])),
        byteps_tables.overview_15(Rows(results["byteps-15"])),
        byteps_tables.overview_16(Rows(results["byteps-16"])),
        byteps_tables.overview_async(Rows(results["async"])),
        _alternatives(Rows(results["alternatives"])),
        byteps_tables.overview_scheduling(Rows(results["scheduling"])),
        study_tables.overview_permanent(Rows(results["permanent"])),
        compare_tables.overview(compare_tables.Cells(results["compare"])),
    ]
    return table(head, lines)


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
    found = [rows.at(f"{model} speed-up compute", 90) for model in MODELS]
    cells, ratios = _beside_paper(found, fixed)
    verdict = verdict_of(ratios, "does not agree: it follows from Figure 13, and partial sums need more "
                               "iterations")
    return ["[trio-12](trio-figures.md#trio-figure-12-time-to-accuracy)",
            "speed-up of training to 90 % accuracy, three networks", *cells, verdict]


def _trio_13(rows: Rows) -> list[str]:
    found = [rows.at(f"{model} speed-up compute", 16) for model in MODELS]
    cells, ratios = _beside_paper(found, fixed)
    verdict = verdict_of(ratios, "the size does not agree: 10 ms timeouts in every window are long "
                               "beside our short iterations")
    return ["[trio-13](trio-figures.md#trio-figure-13-stragglers-and-iteration-time)",
            "speed-up of an iteration over SwitchML, 16 % straggling", *cells, verdict]


def _trio_14(rows: Rows) -> list[str]:
    name = "longest recovery"
    shares = [rows.here(name, x) / rows.at(name, x)["paper"] for x in rows.xs(name)]
    in_timeouts = [rows.here(name, x) / x for x in rows.xs(name)]
    verdict = "within the bound" if max(shares) <= 1 else "beyond the bound"
    return ["[trio-14](trio-figures.md#trio-figure-14-recovery)", "longest recovery from a straggler",
            "at most 2 timeouts", f"{min(in_timeouts):.2f} to {max(in_timeouts):.2f} timeouts",
            f"{min(shares):.2f} to {max(shares):.2f}", verdict]


def _trio_15(rows: Rows) -> list[str]:
    found = [rows.at("latency", 64), rows.at("latency", 1024)]
    cells, ratios = _beside_paper(found, number)
    cells[0] += " us"
    cells[1] += " us"
    verdict = verdict_of(ratios, "differs") + "; two assumed numbers are calibrated with these"
    return ["[trio-15](trio-figures.md#trio-figure-15-time-in-one-pfe)",
            "latency of one PFE, 64 and 1024 gradients a packet", *cells, verdict]


def _trio_16(rows: Rows) -> list[str]:
    most = rows.here("Trio-ML-1024 throughput", 4096)
    share = rows.here("Trio-ML-1024 throughput", 1024) / most
    return ["[trio-16](trio-figures.md#trio-figure-16-the-window)", "throughput of one PFE over the window",
            "at most 6 Gadd/s; 4096 is a good window", f"{fixed(most)} Gadd/s at 4096",
            fixed(most / 6), f"below the bound; a window of 1024 already reaches {percent(share, 2)}"]


# SwitchML paper §6.1, about Figure 3.
SWITCHML_3_LEAST = 0.98


def overview_switchml_3(rows: Rows) -> list[str]:
    name = "100G switchml-256 RDMA of the most"
    least = min(rows.here(name, x) for x in rows.xs(name))
    verdict = "within the paper's 2 %" if least >= SWITCHML_3_LEAST else "below the paper's bound"
    return ["[switchml-3](switchml-figures.md#switchml-figure-3-elements-a-second)",
            "share of the maximum goodput at 100 Gbit/s, RDMA, packets of 256",
            '"within 2% of the maximum achievable goodput" (§6.1)', percent(least, 3), NONE, verdict]


def _switchml_6(rows: Rows) -> list[str]:
    name = "switchml-256 inflation"
    return ["[switchml-6](switchml-figures.md#switchml-figures-6-and-7-loss)", "time with loss over time without",
            "0.01 % matters little",
            f"{rows.here(name, 0.01):.3f} at 0.01 %, {fixed(rows.here(name, 1))} at 1 %", NONE,
            "agrees; the paper's text gives no value"]


def _switchml_7(rows: Rows) -> list[str]:
    calm = rows.here("loss 0 %: time", 0)
    lossy = rows.here("loss 1 %: time", 1)
    return ["[switchml-7](switchml-figures.md#switchml-figures-6-and-7-loss)", "packets sent over time, with loss",
            "close to the ideal rate; 1 % slows down past 150 ms",
            f"1 % ends after {number(lossy, 3)} ms, no loss after {number(calm, 3)}", NONE,
            "1 % ends before the paper's slowdown begins"]


def _switchml_9(rows: Rows) -> list[str]:
    name = "DPDK: time"
    best = min(rows.here(name, x) for x in rows.xs(name))
    enough = min(x for x in rows.xs(name) if rows.here(name, x) <= best * 1.001)
    return ["[switchml-9](switchml-figures.md#switchml-figure-9-the-pool)", "slots that fill 100 Gbit/s",
            "512 chosen", f"{plain(enough)} enough", fixed(enough / 512),
            "fewer slots: the modelled hosts' round trips are shorter"]


def _alternatives(rows: Rows) -> list[str]:
    names = ("waiting", "trio-ml", "backup worker", "local SGD", "bounded timeouts")
    times = [rows.here(f"{name}: time to accuracy", 16) for name in names]
    return ["[alternatives](lab-studies.md#alternatives-to-trio-ml)",
            "time to 90 % accuracy, 16 % straggling: waiting, Trio-ML, backup worker, local SGD, "
            "bounded timeouts",
            NONE, series(times, lambda time: number(time, 3)) + " s", NONE,
            "a backup worker and asynchronous training are first; partial sums need more iterations"]


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


def trio_generations(results: dict) -> str:
    rows = Rows(only(results))
    systems = ("filter", "telemetry", "Trio-ML, 1024 gradients")
    lines = [[plain(x)] + [number(rows.here(system, x)) for system in systems]
             for x in rows.xs("filter")]
    return table(["generation", "filter, Mpps", "telemetry, Mpps",
                  "Trio-ML, 1024 gradients a packet, Mpps"], lines)


def trio_14(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for x in rows.xs("longest recovery"):
        longest = rows.at("longest recovery", x)
        lines.append([plain(x), plain(longest["paper"]), number(longest["here"]),
                      fixed(longest["here"] / longest["paper"], 3),
                      number(rows.here("mean recovery", x))])
    return table(["timeout, ms", "paper's bound for the longest, ms", "longest here, ms", "ratio",
                  "mean here, ms"], lines)


def trio_13(results: dict) -> str:
    rows = Rows(only(results))
    systems = ("trio-ml skip", "trio-ml compute")
    lines = []
    for model, shown in MODELS.items():
        for reading in READINGS:
            for x in rows.xs(f"{model} waiting-switch{reading}"):
                skip, compute = (rows.at(f"{model} trio-ml {way}{reading}", x)
                                 for way in ("skip", "compute"))
                switchml = NONE if reading else number(rows.here(f"{model} switchml-256", x))
                lines.append([
                    shown if x == 0 else "", f"{plain(x)} %{reading}", number(_ideal(rows, model)),
                    number(rows.here(f"{model} waiting-switch{reading}", x)), switchml,
                    *[number(rows.here(f"{model} {system}{reading}", x)) for system in systems],
                    *[_with_error(rows.at(f"{model} speed-up {way}{reading}", x))
                      for way in ("skip", "compute")],
                    _with_range(rows.at(f"{model} speed-up of free mitigation{reading}", x)),
                    number(rows.at(f"{model} speed-up skip{reading}", x)["paper"], 3),
                    *_shares(skip, compute)])
    return table(["network", "p", "ideal", "waiting switch", "SwitchML-256", "Trio-ML skips",
                  "Trio-ML computes", "speed-up, skips", "speed-up, computes", "free mitigation",
                  "paper", *SHARES], lines)


def trio_13_kind(results: dict) -> str:
    """Returns the rows with 700 ms of computation."""
    rows = Rows(only(results))
    setting = "same sleeper, timeout 1 ms, 700 ms of computation"
    lines = []
    for model, shown in MODELS.items():
        for suffix in (setting, f"{setting}, p = 20 %"):
            for x in rows.xs(f"{model} speed-up skip, {suffix}"):
                skip, compute = (rows.at(f"{model} speed-up {way}, {suffix}", x)
                                 for way in ("skip", "compute"))
                lines.append([shown, f"{plain(x)} %", _with_error(skip), _with_error(compute),
                              *_shares(skip, compute)])
    return table(["network", "p", "speed-up, skips", "speed-up, computes", *SHARES], lines)


SHARES = ["degraded, skips", "skipped, skips", "degraded, computes", "runs that a worker left, computes"]


def _shares(skip: dict, compute: dict) -> list[str]:
    """Returns the cells of SHARES. Workers that compute skip nothing, and no sum is missed here."""
    assert compute["skipped"] == skip["missed"] == compute["missed"] == 0
    return [percent(skip["degraded"], 3), percent(skip["skipped"], 3), percent(compute["degraded"], 3),
            _left(skip, compute)]


def _left(skip: dict, compute: dict) -> str:
    """Returns the share of runs in which a worker that computes left the job, and of those in which
    one that skips did, if any. Results of older versions do not know it."""
    of_skip, of_compute = (row.get("dropped_out") for row in (skip, compute))
    if of_compute is None:
        return NONE
    left = percent(of_compute, 3)
    return f"{left} (skips: {percent(of_skip, 3)})" if of_skip else left


def _with_error(row: dict) -> str:
    """Returns "1.12 ± 0.012", with the standard error; a single run has none."""
    error = row["standard_error"]
    return fixed(row["here"]) if error is None else f"{fixed(row['here'])} ± {fixed(error, 3)}"


def _with_range(row: dict) -> str:
    """Returns the mean and the range over the seeds."""
    if row["low"] is None:
        return fixed(row["here"])
    return spread(row["here"], row["low"], row["high"])


def trio_13_iteration(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for x in rows.xs("speed-up compute"):
        skip, compute = (rows.at(f"speed-up {way}", x) for way in ("skip", "compute"))
        lines.append([number(x, 3), _with_range(rows.at("speed-up of free mitigation", x)),
                      _with_range(skip), _with_range(compute), *_shares(skip, compute)])
    return table(["iteration without stragglers, ms", "free mitigation", "Trio-ML skips",
                  "Trio-ML computes", *SHARES], lines)


def trio_13_settings(results: dict) -> str:
    rows = Rows(only(results))
    names = list(dict.fromkeys(row["series"].rsplit(": ", 1)[0] for row in rows.rows))
    lines = []
    for name in names:
        skip, compute = (rows.at(f"{name}: speed-up {way}", 16) for way in ("skip", "compute"))
        lines.append([name, number(rows.here(f"{name}: waiting", 16)),
                      number(rows.here(f"{name}: trio-ml skip", 16)),
                      number(rows.here(f"{name}: trio-ml compute", 16)), _with_error(skip),
                      _with_error(compute), *_shares(skip, compute)])
    return table(["setting", "waiting switch, ms", "Trio-ML skips, ms", "Trio-ML computes, ms",
                  "speed-up, skips", "speed-up, computes", *SHARES], lines)


def _ideal(rows: Rows, model: str) -> float:
    """Returns the time without stragglers, which one row per network holds."""
    found = [row["here"] for row in rows.rows if row["series"] == f"{model} ideal"]
    return found[0]


def trio_12(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for model, shown in MODELS.items():
        for reading in READINGS:
            waiting = "switchml-256" if reading == "" else "waiting-switch"
            if not rows.xs(f"{model} {waiting}{reading}"):
                continue
            skip, compute = (rows.at(f"{model} speed-up {way}{reading}", 90)
                             for way in ("skip", "compute"))
            systems = (waiting, "trio-ml skip", "trio-ml compute")
            lines.append([f"{shown}{reading}",
                          *[number(rows.here(f"{model} {system}{reading}", 90))
                            for system in systems],
                          _with_error(skip), _with_error(compute), number(skip["paper"], 3),
                          fixed(compute["here"] / compute["paper"], 3),
                          *_shares(skip, compute)])
    return table(["network", "all wait, s", "Trio-ML skips, s", "Trio-ML computes, s",
                  "speed-up, skips", "speed-up, computes", "paper",
                  "ratio, computes", *SHARES], lines)


# --- Figures of the SwitchML paper ---------------------------------------------------------------


def switchml_3(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for rate in ("10G", "100G"):
        for system in ("switchml-256", "switchml-64", "switchml-256 RDMA", "switchml-64 RDMA",
                       "ps-dedicated", "ps-colocated", "ring"):
            name = f"{rate} {system}"
            xs = rows.xs(name)
            cells = [name, *[number(rows.here(name, x)) for x in xs]]
            if rows.xs(f"{name} of the line"):
                most = rows.at(f"{name} of the most", xs[0])
                paper = NONE if most["paper"] is None else f"at least {percent(most['paper'], 2)}"
                cells += [percent(rows.here(f"{name} of the line", xs[0])),
                          percent(most["here"], 3), paper]
            else:
                cells += [NONE, NONE, NONE]
            lines.append(cells)
    return table(["system", "4 workers", "8 workers", "16 workers", "of the line",
                  "of the most for such packets", "paper, of the most"], lines)


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
    hosts = ("DPDK", "RDMA", "DPDK, 24 us farther")
    lines = []
    for x in rows.xs("DPDK: time"):
        lines.append([plain(x)])
        for host in hosts:
            lines[-1] += [number(rows.here(f"{host}: time", x), 3),
                          number(rows.here(f"{host}: round trip", x), 3)]
    return table(["slots", *[head for host in hosts
                             for head in (f"{host}: time, ms", "round trip, us")]], lines)


# --- Figures without a paper ----------------------------------------------------------------------


def alternatives(results: dict) -> str:
    rows = Rows(only(results))
    measures = ["iteration", "time to accuracy", "accuracy at equal time"]
    lines = []
    for x in rows.xs("waiting: iteration"):
        for name in dict.fromkeys(row["series"].split(": ")[0] for row in rows.rows):
            found = [rows.at(f"{name}: {measure}", x) for measure in measures]
            shares = [f"{100 * found[0][key]:.1f} %" for key in ("degraded", "skipped", "missed")]
            counted = percents(rows.here(f"{name}: contributions counted", x))
            lines.append([f"{plain(x)} %", name, *[_measured(row) for row in found], counted, *shares])
    return table(["straggling", "system", "iteration, ms", "time to 90 %, s", "accuracy after 6 s, %",
                  "contributions counted", "degraded", "skipped", "missed"], lines)


def _measured(row: dict) -> str:
    """Returns the mean and its standard error. Seeds that are alike differ by rounding only."""
    if row["here"] is None:
        return "not reached"
    return f"{number(row['here'], 3)} ± {round(row['standard_error'], 9):.2g}"


# --- Accounting ----------------------------------------------------------------------------------

REGISTER_PARTS = ("register_reads", "register_writes")


def _use(row: dict, part: str) -> str:
    """Returns the measured use and the budget. Registers in plain variables are not measured."""
    measured, budget = row["measured"][part], row["budget"][part]
    if part in REGISTER_PARTS and measured == 0 and budget > 0:
        return f"{budget} declared"
    return f"{measured} of {budget}"


def accounting(results: dict) -> str:
    """Returns the use of each instruction, of its budget, and the program's totals."""
    (node,) = only(results)
    head = ["instruction", "executed", "LMEM reads", "register reads", "register writes",
            "head bytes", "XTXNs"]
    lines = [[f"`{row['name']}`", number(row["executed"]), _use(row, "lmem_reads"),
              *(_use(row, part) for part in REGISTER_PARTS),
              number(row["measured"]["head_bytes"]), number(row["measured"]["xtxns"])]
             for row in node["instructions"]]
    totals = (f"Different instructions, with those of the port and of the loop bodies: "
              f"{node['program_instructions']} (paper: about 60). Executed per gradient: "
              f"{node['instructions_per_gradient']:.4g} (paper: about 1.2).")
    return table(head, lines) + "\n\n" + totals


VIEWS = {
    "overview": overview,
    "trio-12": trio_12,
    "trio-13": trio_13,
    "trio-13-iteration": trio_13_iteration,
    "trio-13-kind": trio_13_kind,
    "trio-13-settings": trio_13_settings,
    "trio-14": trio_14,
    "trio-15": trio_15,
    "trio-16": trio_16,
    "trio-generations": trio_generations,
    "switchml-3": switchml_3,
    "switchml-6": switchml_6,
    "switchml-9": switchml_9,
    "byteps-12": byteps_tables.byteps_12,
    "byteps-13": byteps_tables.byteps_13,
    "byteps-14": byteps_tables.byteps_14,
    "byteps-15": byteps_tables.byteps_scaling,
    "byteps-16": byteps_tables.byteps_scaling,
    "async": byteps_tables.asynchronous,
    "alternatives": alternatives,
    "scheduling": byteps_tables.scheduling,
    "permanent": study_tables.permanent,
    "constants": study_tables.constants,
    "accounting": accounting,
    "compare": compare_tables.compare,
    "compare-network": compare_tables.compare_network,
    "compare-loss": compare_tables.compare_loss,
    "compare-time-outs": compare_tables.compare_time_outs,
    "compare-telemetry": study_tables.compare_telemetry,
}
