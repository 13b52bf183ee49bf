# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/lab-studies.md and docs/programs.md about the models themselves, and about what no
paper draws."""

from docs.markdown import NONE, fixed, number, percent, plain, table
from docs.rows import Rows, only

# A constant with a smaller share in every result is not in the table.
LEAST_SHARE = 0.5  # Per cent.


def constants(results: dict) -> str:
    rows = only(results)
    shares: dict = {}
    values = {}
    for row in rows:
        name, result = row["series"].split(": ", 1)
        shares.setdefault(name, {})[result] = row["here"]
        values[name] = row["x"]
    columns = list(next(iter(shares.values())))
    shown = [name for name in shares if max(map(abs, shares[name].values())) >= LEAST_SHARE]
    shown.sort(key=lambda name: -max(map(abs, shares[name].values())))
    lines = [[f"`{name}`", plain(values[name]),
              *[f"{shares[name][column]:.1f} %".replace("-0.0", "0.0") for column in columns]]
             for name in shown]
    others = [f"`{name}`" for name in shares if name not in shown]
    text = table(["constant", "value", *columns], lines)
    return text + f"\nBelow {LEAST_SHARE} % in each: {', '.join(others)}."


def permanent(results: dict) -> str:
    rows = only(results)
    lines = []
    for row in rows:
        name, _, what = row["series"].rpartition(": ")
        if what != "all":
            continue
        found = {r["series"]: r["here"] for r in rows if r["series"].startswith(f"{name}: ")}
        parts = [found[f"{name}: {part}"]
                 for part in ("while it stands still", "as it goes on", "afterwards")]
        lines.append([name, *[NONE if part is None else number(part) for part in parts],
                      number(row["here"]), percent(row["degraded"], 3)])
    return table(["system", "iteration while it stands still, ms", "as it goes on, ms",
                  "afterwards, ms", "all iterations, ms", "degraded"], lines)


def compare_telemetry(results: dict) -> str:
    names = {"trio": "Trio, records", "tofino": "Tofino, PRECISION"}
    lines = []
    for row in only(results)["rows"]:
        lines.append([names[row["machine"]], plain(round(row["memory_bytes"] / 1024)),
                      NONE if row["sram_bytes"] is None else plain(row["sram_bytes"] // 1024),
                      str(row["places"]), percent(row["recall"], 4), str(row["false_positives"]),
                      percent(row["count_error"], 3), fixed(row["detect_ms"], 1),
                      fixed(row["instructions_per_packet"], 1), fixed(row["passes_per_packet"], 4),
                      NONE if row["uncounted_packets"] is None else str(row["uncounted_packets"]),
                      plain(round(row["report_bytes"] / 1024))])
    return table(["machine", "memory, KiB", "SRAM blocks, KiB", "records or slots", "recall", "false positives",
                  "count error", "detect, ms", "instructions a packet", "passes a packet",
                  "uncounted packets", "reports, KiB"], lines)


def overview_permanent(rows: Rows) -> list[str]:
    found = {row["series"]: row["here"] for row in rows.rows}
    name = "trio-ml skip{}: while it stands still"
    return ["[permanent](lab-studies.md#a-worker-that-is-silent-for-long)",
            "mean iteration while a worker stands still: partial sums alone, worker excluded", NONE,
            f"{number(found[name.format('')], 3)}, {number(found[name.format(', excluded')], 3)} ms",
            NONE, "exclusion saves the timeouts of every window"]
