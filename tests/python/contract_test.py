# SPDX-License-Identifier: Apache-2.0
# The contract in docs/pytorch.md says which way each operation and each option of DDP goes. It is made of
# what ranks_contract.py finds. `contract_test.py --write` replaces the table in the document.
import json
import os
import pathlib
import sys
import tempfile
import unittest

import support

support.need("numpy", "torch")

import torch  # noqa: E402

DOCUMENT = support.HERE.parent.parent / "docs" / "pytorch.md"
BEGIN, END = "<!-- contract: begin -->\n", "<!-- contract: end -->\n"
MITIGATED = {
    "aggregator": "aggregator; may lack a late rank",
    "aggregator and Gloo": "aggregator; may lack a late rank, but all ranks wait for Gloo",
}
# Sums of these types travel as 16-bit lanes. Other collectives move a tensor's bytes.
OF_16_BITS = ("float16", "bfloat16", "fp16_compress_hook", "bf16_compress_hook", "bfloat16 parameters")
MARK = "†"  # The text above the table explains it.


def marked(name, way):
    """Returns a type or an option of DDP, with a mark if the aggregator adds it in 16 bits."""
    return name + MARK * (name in OF_16_BITS and way == "aggregator")


def answers(*flags):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "out.json"
        ended = support.launch(2, support.HERE / "ranks_contract.py", str(path), flags=flags)
        if ended.returncode != 0:
            raise RuntimeError(ended.stdout + ended.stderr)
        return json.loads(path.read_text())


def table():
    """Returns the contract as Markdown."""
    plain = answers()
    # A long timeout, because this is not about late ranks.
    mitigated = answers("--timeout-ms", "2000")
    lines = [
        "| | without mitigation | with mitigation | with `CatchUp`; operations: in its branch |",
        "| --- | --- | --- | --- |",
    ]
    for name, ways in plain["operations"].items():
        outcomes = {}  # Types by what becomes of them.
        for dtype, way in ways.items():
            outcomes.setdefault((way, mitigated["operations"][name][dtype]), []).append(dtype)
        for (way, with_mitigation), types in outcomes.items():
            if name.startswith(("all_reduce", "reduce")):
                types = [marked(dtype, way) for dtype in types]
            which = "" if len(types) == len(ways) else f": {', '.join(types)}"
            late = MITIGATED.get(with_mitigation, with_mitigation)
            lines.append(f"| {name}{which} | {way} | {late} | {mitigated['in_branch'][name]} |")
    for name, way in plain["calls"].items():
        late = mitigated["calls"][name]
        lines.append(f"| {name} | {way} | {MITIGATED.get(late, late)} | {mitigated['in_branch'][name]} |")
    for name, way in plain["options"].items():
        late = mitigated["options"][name]
        lines.append(
            f"| {marked(name, way)} | {way} | {MITIGATED.get(late, late)} | {mitigated['catch_up'][name]} |"
        )
    return "".join(f"{line}\n" for line in lines)


def documented():
    """Returns the document's text before the table, the table, and the text after it."""
    before, rest = DOCUMENT.read_text().split(BEGIN)
    old, after = rest.split(END)
    return before, old, after


class Contract(unittest.TestCase):
    @unittest.skipUnless(torch.__version__.startswith("1.13"), "the table is that of torch 1.13's Gloo")
    def test_the_document_has_the_table_that_the_ranks_found(self):
        self.maxDiff = None
        self.assertEqual(documented()[1], table(), "contract_test.py --write updates docs/pytorch.md")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    if sys.argv[1:] == ["--write"]:
        before, _, after = documented()
        DOCUMENT.write_text(f"{before}{BEGIN}{table()}{END}{after}")
    else:
        unittest.main()
