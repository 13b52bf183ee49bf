# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/benchmarks.md and of the README: wall-clock and CPU time beside rivals.

Each view takes the results that its marker names, by name, and returns Markdown. `tributary bench
race` writes `rows`, one for each system and case, and `comparisons`, one for each case. The other
benches write `rows` of their own (see the header of each in bench/).
"""

from statistics import median

from docs.lab_tables import only
from docs.markdown import fixed, number, percent, plain, series, spread, table

# Ratios within a twentieth of 1 are called alike.
ALIKE_WITHIN = 0.05

SYSTEMS = {
    "tributary": "Tributary",
    "tributary-group": "with a group",
    "ps": "ps",
    "gloo-ring": "Gloo ring",
    "gloo-hd": "Gloo halving-doubling",
    "ompi-tcp": "Open MPI",
    "ompi-tcp-ring": "Open MPI ring",
    "ompi-shm": "Open MPI shared memory",
}


class Race:
    """The result of one race."""

    def __init__(self, race: dict):
        self.rows = race["rows"]
        self.comparisons = race["comparisons"]

    def ratio(self, **case) -> float:
        """Returns Tributary's time over the fastest TCP peer's."""
        return self._comparison(case)["ratio"]

    def matching(self, **case) -> list[dict]:
        """Returns the comparisons of all cases that match, in the order of the file."""
        return [one for one in self.comparisons if _matches(one, case)]

    def cpu_ratios(self, **case) -> list[float]:
        """Returns a worker's CPU time over that of the fastest TCP peer's, in the same order."""
        return [one["worker_cpu_ratio"] for one in self.comparisons if _matches(one, case)]

    def ms(self, system: str, **case) -> float | None:
        for row in self.rows:
            if row["system"] == system and _matches(row, case):
                return row["median_s"] * 1e3
        return None

    def row(self, system: str, **case) -> dict:
        for row in self.rows:
            if row["system"] == system and _matches(row, case):
                return row
        raise KeyError(f"no row of '{system}' with {case}")

    def systems(self) -> list[str]:
        present = {row["system"] for row in self.rows}
        return [system for system in SYSTEMS if system in present]

    def _comparison(self, case: dict) -> dict:
        for one in self.comparisons:
            if _matches(one, case):
                return one
        raise KeyError(f"no comparison of {case}")


def _matches(entry: dict, case: dict) -> bool:
    return all(entry[key] == value for key, value in case.items())


def _megabytes(size_bytes: int) -> str:
    return plain(size_bytes / 1e6)


# --- The verdict ---------------------------------------------------------------------------------


def verdict(results: dict) -> str:
    """A line for each kind of case: whether Tributary is faster or slower there, and why."""
    equal = Race(results["race-equal"])
    race, packets = Race(results["race"]), Race(results["race-pkt1500"])
    memory, late = Race(results["race-shm"]), Race(results["race-straggler"])
    large = {"bytes": 100_000_000}
    on_equal = equal.matching(net="netns-1gbit-equal")
    shaped = race.matching(net="netns-1gbit", **large)
    unshaped = race.matching(net="netns", **large)
    cpu = race.cpu_ratios(net="netns", **large)
    small = race.matching(net="netns", bytes=1_000_000)
    shared = memory.matching(net="shm")
    single = packets.matching(net="netns-pkt1500", **large)
    single_shaped = packets.matching(net="netns-1gbit-pkt1500", **large)
    straggling = late.matching(net="lo+straggler")
    no_spare = [one for one in on_equal if one["servers"] == 0]
    spare = [one for one in on_equal if one["servers"] > 0]
    lines = [
        ["Every link 1 Gbit/s, servers' too; 100 MB, no spare machine", no_spare, _ratios(no_spare),
         "Aggregators on all machines share the sums, so no link carries more than in a ring."],
        ["The same, with spare machines as servers", spare, _ratios_by_servers(spare),
         "Each spare machine takes a part of the sums from the workers' links."],
        ["Workers' links 1 Gbit/s, the server's without limit; 100 MB", shaped, _ratios(shaped),
         "A worker sends its tensor once. In a ring of 4 or 6 it sends 1.5 or 1.67 tensors."],
        ["One of four workers is 1 s late; 10 MB", straggling, _ratios(straggling),
         "Mitigation completes a block without the late worker. The others wait for it."],
        ["Cores limit: network and workers share two; 100 MB", unshaped, _ratios(unshaped),
         f"A worker takes {series(cpu)} times the CPU time of a worker in a ring, and the server needs the cores, too."],
        ["Cores limit; 1 MB", small, _ratios(small),
         "The server is one more process that needs a core. Open MPI's ring has none."],
        ["Cores limit; Tributary over shared memory, the peer over TCP on loopback", shared,
         f"{_range(_values(shared))}; over Open MPI's shared memory {_range(_over_ompi_shm(memory))}",
         "The server is one more process that needs a core."],
        ["Cores limit; real packets of 1500 bytes, 100 MB", single, _ratios(single),
         "Each packet crosses the kernel by itself, and costs five times the CPU time."],
        ["The same, workers' links 1 Gbit/s", single_shaped, _ratios(single_shaped),
         "The cores limit Tributary before its links do."],
    ]
    return table(["where", "Tributary is", "its time over the fastest TCP peer's", "why"],
                 [[where, _judge(cases), shown, why] for where, cases, shown, why in lines])


def _values(cases: list[dict]) -> list[float]:
    return [one["ratio"] for one in cases]


def _ratios(cases: list[dict]) -> str:
    return series(_values(cases))


def _range(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _over_ompi_shm(race: Race) -> list[float]:
    """Returns Tributary's time over that of Open MPI's shared memory, for each case of `shm`."""
    cases = [{key: one[key] for key in ("net", "workers", "bytes", "loss")}
             for one in race.matching(net="shm")]
    return [race.ms("tributary", **case) / race.ms("ompi-shm", **case) for case in cases]


def _by_workers(cases: list[dict]) -> dict[int, list[dict]]:
    groups: dict[int, list[dict]] = {}
    for one in cases:
        groups.setdefault(one["workers"], []).append(one)
    return groups


def _ratios_by_servers(cases: list[dict]) -> str:
    """Returns the ratios of each number of workers, with the number of spare machines."""
    return "; ".join(
        f"{workers} workers: " + series(
            group, write=lambda one: f"{fixed(one['ratio'])} with {one['servers']} spare")
        for workers, group in _by_workers(cases).items())


def _judge(cases: list[dict]) -> str:
    """Returns one verdict by the median, or one for each number of workers where they disagree."""
    verdicts = {workers: _judge_median(median(_values(group)))
                for workers, group in _by_workers(cases).items()}
    if len(set(verdicts.values())) == 1:
        return next(iter(verdicts.values()))
    return "; ".join(f"{workers} workers: {text}" for workers, text in verdicts.items())


def _judge_median(ratio: float) -> str:
    if ratio < 1 - ALIKE_WITHIN:
        return "**faster**"
    if ratio > 1 + ALIKE_WITHIN:
        return "**slower**"
    return "alike"


# --- The race ------------------------------------------------------------------------------------


def race(results: dict) -> str:
    """A line for each case: the time of each system in ms, and the ratio to the fastest peer."""
    races = [Race(content) for content in results.values()]
    systems = [system for system in SYSTEMS if any(system in race.systems() for race in races)]
    head = ["net", "workers", "MB", *[SYSTEMS[system] for system in systems],
            "ratio to the fastest TCP peer", "worker CPU ratio"]
    lines = []
    for one_race in races:
        for one in one_race.comparisons:
            case = {key: one[key] for key in ("net", "workers", "bytes", "loss")}
            lines.append([f"`{one['net']}`", str(one["workers"]), _megabytes(one["bytes"]),
                          *[number(one_race.ms(system, **case), 3) for system in systems],
                          spread(one["ratio"], one["ratio_min"], one["ratio_max"]),
                          fixed(one["worker_cpu_ratio"])])
    return table(head, lines)


def race_equal(results: dict) -> str:
    """A line for each number of spare machines: Tributary beside the optimum and the fastest peer."""
    lines = []
    for one_race in (Race(content) for content in results.values()):
        for one in one_race.comparisons:
            case = {key: one[key] for key in ("net", "workers", "servers", "bytes", "loss")}
            own = one_race.row("tributary", **case)
            # The others' rows do not depend on the number of spare machines.
            del case["servers"]
            loss = f", {percent(one['loss'], 2)} loss" if one["loss"] else ""
            lines.append([f"`{one['net']}`{loss}", str(one["workers"]), _megabytes(one["bytes"]),
                          str(one["servers"]), number(own["optimum_s"] * 1e3, 4),
                          number(own["median_s"] * 1e3, 4), fixed(one["ratio_to_optimum"]),
                          number(one_race.ms(one["fastest_peer"], **case), 4),
                          spread(one["ratio"], one["ratio_min"], one["ratio_max"]),
                          number(one_race.ms("ps", **case), 4), fixed(one["worker_cpu_ratio"]),
                          fixed(own["colocated_cpu_s_per_GB"]), fixed(own["cores_busy"])])
    return table(["net", "workers", "MB", "spare machines", "optimum", "Tributary",
                  "over the optimum", "fastest TCP peer", "ratio to it", "ps", "worker CPU ratio",
                  "colocated aggregator, CPU s/GB", "cores busy"], lines)


def race_wire(results: dict) -> str:
    """A line for each system: its time in 32 and in 16 bits, and Tributary's 16 bits beside both."""
    one_race = Race(only(results))
    half = [one for one in one_race.comparisons if one["wire"] == 16]
    lines = []
    for one in half:
        case = {key: one[key] for key in ("net", "workers", "bytes", "loss")}
        for system in one_race.systems():
            whole_ms, half_ms = (one_race.ms(system, wire=wire, **case) for wire in (32, 16))
            own_ms = one_race.ms("tributary", wire=16, **case)
            lines.append([f"`{one['net']}`", str(one["workers"]), SYSTEMS[system], number(whole_ms, 4),
                          number(half_ms, 4), fixed(half_ms / whole_ms), fixed(own_ms / half_ms),
                          str(one_race.row(system, wire=16, **case)["wrong"])])
    return table(["net", "workers", "system", "32 bits, ms", "16 bits, ms", "16 over 32 bits",
                  "Tributary's 16-bit time over this one", "wrong"], lines)


def race_loss(results: dict) -> str:
    """A line for each loss: each system's time, and its time over its own without loss."""
    one_race = Race(only(results))
    losses = list(dict.fromkeys(row["loss"] for row in one_race.rows))
    systems = one_race.systems()
    lines = []
    for loss in losses:
        cells = [percent(loss, 2) if loss else "0"]
        for system in systems:
            calm, ms = one_race.ms(system, loss=0), one_race.ms(system, loss=loss)
            cells += [number(ms, 3), fixed(ms / calm)]
        lines.append(cells)
    heads = [head for system in systems for head in (f"{SYSTEMS[system]}, ms", "over no loss")]
    return table(["loss each way", *heads], lines)


def race_straggler(results: dict) -> str:
    one_race = Race(only(results))
    rows = [row for row in one_race.rows if row["net"].endswith("+straggler")]
    differ = len({row["servers"] for row in rows}) > 1

    def spare(cell: str) -> list[str]:
        return [cell] if differ else []

    return table(["system", *spare("spare machines"), "the others' time, ms", "wrong elements"],
                 [[SYSTEMS[row["system"]], *spare(str(row["servers"])), number(row["median_s"] * 1e3, 4),
                   str(row["wrong"])] for row in rows])


def machine(results: dict) -> str:
    """One sentence about the machine and its load, from NAME.machine.json or a race's own JSON."""
    content = only(results)
    machine = content.get("machine", content)
    text = (f"Measured on {machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, "
            f"load {machine['load_before']:.1f} before and {machine['load_after']:.1f} after")
    if "handoff_ns_before" in machine:
        text += (f"; a cache line took {machine['handoff_ns_before']:.0f} ns between the cores before "
                 f"and {machine['handoff_ns_after']:.0f} ns after")
    return text + "."


# --- The other benches ---------------------------------------------------------------------------

# Goals of bench/engine_bench.h and of docs/benchmarks.md.
ENGINE_GOALS = {(64, 64): 0.6, (1024, 64): 0.85}
PART_GOALS = {"filter": 0.5, "ten jobs": 0.9, "two cores": 0.85}
LATENCY_GOAL = 1.5


def engine(results: dict) -> str:
    lines = [[str(row["gradients"]), str(row["window"]), number(row["engine_mpps"], 3),
              number(row["loop_mpps"], 3), spread(row["ratio"], row["ratio_min"], row["ratio_max"]),
              plain(ENGINE_GOALS.get((row["gradients"], row["window"])))]
             for row in only(results)["rows"]]
    return table(["gradients", "window", "engine, Mpps", "loop, Mpps", "ratio", "to reach"], lines)


def parts(results: dict) -> str:
    lines = []
    for row in only(results)["rows"]:
        name = row["part"]
        lines.append([("&ensp;" if name.startswith(" ") else "") + name.strip(), row["baseline"],
                      f"{number(row['rate'], 3)} {row['unit']}",
                      spread(row["ratio"], row["ratio_min"], row["ratio_max"]),
                      plain(PART_GOALS.get(name))])
    return table(["part", "beside", "rate", "ratio", "to reach"], lines)


# Ratio to the hand-written loop that a program must reach, with any number of flows.
PROGRAM_GOALS = {"filter": 0.8, "telemetry": 0.6, "guard": 0.6}


def programs(results: dict) -> str:
    lines = []
    for row in only(results)["rows"]:
        lines.append([f"`{row['program']}`", str(row["flows"]), number(row["mpps"], 3),
                      number(row["loop_mpps"], 3),
                      spread(row["ratio"], row["ratio_min"], row["ratio_max"]),
                      plain(PROGRAM_GOALS.get(row["program"]))])
    return table(["program", "flows", "program, Mpps", "loop, Mpps", "ratio", "to reach"], lines)


def latency(results: dict) -> str:
    lines = []
    for path in only(results)["paths"]:
        lines.append([path["path"],
                      *[fixed(path[end][at]) for end in ("aggregation", "echo")
                        for at in ("p50_us", "p99_us")],
                      spread(path["ratio"], path["ratio_min"], path["ratio_max"]),
                      plain(LATENCY_GOAL)])
    return table(["path", "packet in to result out: p50, us", "p99, us", "bare echo: p50, us",
                  "p99, us", "ratio of p50", "to reach"], lines)


def net(results: dict) -> str:
    lines = [[row["topology"], str(row["payload_bytes"]), number(row["hops_per_s"] / 1e6, 3),
              number(row["ns_per_hop"], 3), number(row["heap_ns_per_hop"], 3),
              fixed(row["heap_over_calendar"])] for row in only(results)["rows"]]
    return table(["topology", "payload, bytes", "million hops a second", "ns a hop",
                  "ns a hop on a binary heap", "heap over calendar queue"], lines)


VIEWS = {
    "verdict": verdict,
    "race": race,
    "race-equal": race_equal,
    "race-loss": race_loss,
    "race-wire": race_wire,
    "race-straggler": race_straggler,
    "machine": machine,
    "engine": engine,
    "parts": parts,
    "programs": programs,
    "latency": latency,
    "net": net,
}
