# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/pytorch.md: trainings beside Gloo, from examples/compare_training.py."""

from docs.markdown import fixed, percent, spread, table
from docs.rows import only

DIGITS = {
    "gloo": "Gloo",
    "tributary": "Tributary",
    "wire16": "`wire=16`",
    "sleeper": "a rank sleeps",
    "wire16-sleeper": "a rank sleeps, `wire=16`",
}
LAST_STEPS = 20


def digits(results: dict) -> str:
    """A line for each run: the test accuracy by seed, what the late rank cost, whether ranks agree."""
    rows = only(results)["rows"]
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    lines = []
    for name, label in DIGITS.items():
        by_seed = {row["seed"]: row for row in rows if row["run"] == name}
        chosen = [by_seed[seed] for seed in seeds]
        blocks = sum(row["blocks"] for row in chosen)
        degraded = sum(row["degraded_blocks"] for row in chosen)
        lines.append([label, *[f"{100 * row['accuracy']:.1f}" for row in chosen],
                      percent(degraded / blocks, 3) if blocks else "–",
                      ", ".join(str(sum(row["caught_up_steps"])) for row in chosen),
                      "yes" if all(row["parameters_identical"] for row in chosen) else "**no**"])
    heads = [f"seed {seed}, %" for seed in seeds]
    return table(["run", *heads, "blocks without a rank", "steps caught up", "parameters identical"], lines)


def gpt(results: dict) -> str:
    """A line for each copy of the model: its loss, its distance from Gloo's, its step time over Gloo's."""
    exact, half = only(results)["runs"]
    copies = [("Gloo", exact, "gloo"), ("Gloo, another order of ranks", exact, "gloo-rotated"),
              ("Tributary, `wire=32`", exact, "tributary"), ("Tributary, `wire=16`", half, "tributary")]
    lines = []
    for label, run, name in copies:
        losses, gloos = run[name]["losses"], run["gloo"]["losses"]
        differences = [abs(one - other) for one, other in zip(losses, gloos)]
        quartiles = run.get(f"{name}_to_gloo_quartiles")
        lines.append([label, fixed(sum(losses[-LAST_STEPS:]) / LAST_STEPS, 4),
                      fixed(run[name]["validation_nats"], 4),
                      f"{max(differences):.1g}" if name != "gloo" else "–",
                      spread(quartiles[1], quartiles[0], quartiles[2]) if quartiles else "1"])
    return table(["copy", f"loss of the last {LAST_STEPS} steps", "loss on text held back",
                  "largest difference from Gloo's loss in a step", "step time over Gloo's (quartiles)"], lines)


VIEWS = {"training-digits": digits, "training-gpt": gpt}
