# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/byteps-figures.md, and of asynchronous training in docs/lab-studies.md."""

from docs.markdown import NONE, fixed, number, percent, plain, series, table
from docs.rows import Rows, only, percents, verdict_of

# --- Lines of the overview -----------------------------------------------------------------------


def overview_12(rows: Rows) -> list[str]:
    name = "sharded, of the optimum"
    shares = [rows.here(name, k) / 100 for k in rows.xs(name)]
    return ["[byteps-12](byteps-figures.md#byteps-figure-12-goodput-over-spare-machines)",
            "goodput over the optimum of equation 6, 0 to 8 spare machines", "91 % to 99 %",
            f"{percent(min(shares), 3)} to {percent(max(shares), 3)}", NONE,
            "within the paper's range for every number of machines"]


def overview_13(rows: Rows) -> list[str]:
    found = [rows.at(f"NVLink, {name}", 8) for name in ("over no spare machine", "over all-reduce")]
    ratios = [row["here"] / row["paper"] for row in found]
    return ["[byteps-13](byteps-figures.md#byteps-figure-13-training-over-spare-machines)",
            "training speed with 8 spare machines over none, and over all-reduce",
            "up to " + series([row["paper"] for row in found]),
            series([row["here"] for row in found]), series(ratios),
            verdict_of(ratios, "differs")]


def overview_14(rows: Rows) -> list[str]:
    row = rows.at("PCIe, CPU-assisted over all GPUs", 0)
    return ["[byteps-14](byteps-figures.md#byteps-figure-14-strategies-inside-machines)",
            "training speed, best strategy inside a machine over the common one, PCIe only",
            "up to " + fixed(row["paper"]), fixed(row["here"]), fixed(row["here"] / row["paper"]),
            "lower: here the network hides most of the difference; it agrees with less computation"]


def overview_15(rows: Rows) -> list[str]:
    names = ("ResNet-50, with spare machines", "ResNet-50, all-reduce", "UGATIT, with spare machines")
    found = [rows.at(name, 256) for name in names]
    return ["[byteps-15](byteps-figures.md#byteps-figures-15-and-16-up-to-256-gpus)",
            "scaling on 256 GPUs: ResNet-50, its all-reduce, UGATIT",
            series([row["paper"] for row in found], percents),
            series([row["here"] for row in found], percents),
            series([row["here"] / row["paper"] for row in found]),
            "higher: here gradients travel during the backward pass; it agrees if they travel after it"]


def overview_16(rows: Rows) -> list[str]:
    return ["[byteps-16](byteps-figures.md#byteps-figures-15-and-16-up-to-256-gpus)",
            "scaling of BERT-large on 256 GPUs", "at least 91.6 %",
            percents(rows.here("BERT-large, with spare machines", 256)), NONE,
            "above the bound"]


def overview_async(rows: Rows) -> list[str]:
    times = [rows.here(f"sleeping, 16 %, {system}: time to accuracy", 90)
             for system in ("waiting", "trio-ml", "asynchronous")]
    return ["[async](lab-studies.md#asynchronous-training-time-to-accuracy)",
            "time to 90 % accuracy, 16 % sleeping: waiting, Trio-ML, asynchronous", NONE,
            ", ".join(number(time, 3) for time in times) + " s", NONE,
            "asynchronous training is first with stragglers, and last without"]


def overview_scheduling(rows: Rows) -> list[str]:
    found = []
    for network in ("ResNet-50", "VGG-16"):
        name = f"trio-ml, {network}: speed-up"
        found.append(max(rows.here(name, gbps) for gbps in rows.xs(name)))
    return ["[scheduling](lab-studies.md#scheduling-the-next-forward-pass)",
            "largest speed-up by overlap and priorities on Trio-ML: ResNet-50, VGG-16", NONE,
            series(found), NONE, "most where communication takes as long as computation; at most 4/3"]


# --- Views ---------------------------------------------------------------------------------------


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


def asynchronous(results: dict) -> str:
    rows = Rows(only(results))
    lines = []
    for pattern in ("no straggler", "sleeping, 16 %", "one at half speed"):
        for system in ("waiting", "trio-ml", "asynchronous"):
            def cell(measure, digits=3):
                try:
                    row = rows.at(f"{pattern}, {system}: {measure}", 90)
                except KeyError:
                    return NONE
                return f"{number(row['here'], digits)} ± {number(round(row['spread'], 9), 2)}"
            lines.append([pattern, system, cell("time to accuracy"), cell("iteration"), cell("degraded"),
                          cell("staleness"), cell("largest staleness")])
    return table(["stragglers", "system", "time to 90 %, s", "iteration, ms", "degraded, %",
                  "staleness, pushes", "largest staleness"], lines)


def scheduling(results: dict) -> str:
    rows = Rows(only(results))
    names = list(dict.fromkeys(row["series"].split(": ")[0] for row in only(results)))
    lines = []
    for name in names:
        for gbps in rows.xs(f"{name}: no overlap"):
            def cell(measure, write):
                return write(rows.here(f"{name}: {measure}", gbps))
            lines.append(name.split(", ") + [plain(gbps)] +
                         [cell(measure, lambda ms: number(ms, 4))
                          for measure in ("no overlap", "overlap in arrival order", "overlap by priority",
                                          "least, by hand")] +
                         [cell(measure, lambda ratio: number(ratio, 3))
                          for measure in ("speed-up", "speed-up, by hand")])
    return table(["system", "network", "Gbit/s", "no overlap, ms", "arrival order, ms", "by priority, ms",
                  "least by hand, ms", "speed-up", "by hand"], lines)
