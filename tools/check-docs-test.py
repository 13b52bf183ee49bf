#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the modules behind tools/check-docs.sh: pages that work pass; each fault in one is named."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent

STATE = """```sh
mkdir folder
cd folder && export COLOUR=blue   # Both hold for the commands below.
echo "$COLOUR" \\
  >file
for word in one two; do
  echo $word >>file
done
test "$(cat file)" = "blue
one
two"
```
"""


def block(text, language="sh", mark=""):
    return (f"<!-- check: {mark} -->\n" if mark else "") + f"```{language}\n{text}\n```\n"


class CheckDocs(unittest.TestCase):
    def check(self, page, *options):
        """Runs the checker over README.md with this text. Returns status and output."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "docs").mkdir()
            (Path(folder) / "README.md").write_text(page)
            (Path(folder) / "docs/README.md").write_text(block("export PREPARED=yes"))
            (Path(folder) / "docs/page.md").write_text(block('test "$PREPARED" = yes'))
            done = subprocess.run([sys.executable, TOOLS / "docs/check.py", "--top", folder, *options],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def expect_pass(self, page, text="", *options):
        status, said = self.check(page, *options)
        self.assertEqual(status, 0, said)
        self.assertIn(text, said)

    def expect_failure(self, page, text, *options):
        status, said = self.check(page, *options)
        self.assertEqual(status, 1, said)
        self.assertIn(text, said)


class Pages(CheckDocs):
    def test_commands_share_folder_and_environment(self):
        self.expect_pass(STATE, "ok       README.md:4: echo \"$COLOUR\" \\")

    def test_transcript(self):
        self.expect_pass(block("$ echo one; \\\necho two\none\ntwo\n$ echo three\nthree", "console"))

    def test_expected_failure(self):
        self.expect_pass(block("$ echo no >&2; exit 3\nno", "console", "fails"))

    def test_terminals(self):
        # The server ends by Ctrl-C alone; the client needs the file that the server makes.
        server = "bash -c 'trap \"exit 0\" INT; touch up; while :; do read -t 1; done < <(sleep 60)' tributary serve"
        self.expect_pass(block(f"{server}\ntest -e up", mark="terminals"))

    def test_skipped_blocks_are_listed(self):
        page = block("false", mark="skip: needs a card") + block("false", mark="long: takes hours")
        self.expect_pass(page, "skipped  README.md:3: false  [needs a card]")
        self.expect_pass(page, "skipped  README.md:7: false  [long: takes hours]")
        self.expect_failure(page, "FAILED   README.md:7: false", "--all")

    def test_list_runs_nothing(self):
        self.expect_pass(block("false"), "run      README.md:2: false", "--list")


class Faults(CheckDocs):
    def test_command_that_fails_ends_its_page_only(self):
        page = block("true\necho reason; false\necho after")
        self.expect_failure(page, "FAILED   README.md:3: echo reason; false")
        status, said = self.check(page)
        self.assertIn("    reason", said)
        self.assertNotIn("README.md:4", said)
        self.assertIn("ok       docs/page.md:2", said)

    def test_output_that_differs(self):
        page = block("$ echo one\ntwo", "console")
        self.expect_failure(page, "    +one")
        self.expect_pass(block("$ echo one\ntwo", "console", "output varies"))

    def test_unexpected_success(self):
        self.expect_failure(block("true", mark="fails"), "exit status 0, expected: other than 0")

    def test_command_that_hangs(self):
        self.expect_failure(block("sleep 60"), "stopped after 1 s", "--limit-s", "1")

    def test_client_that_fails_in_its_terminal(self):
        self.expect_failure(block("true\nfalse", mark="terminals"), "FAILED   README.md:4: false")

    def test_half_a_command(self):
        self.expect_failure(block("if true; then"), "FAILED   README.md:2: if true; then")

    def test_unknown_word(self):
        self.expect_failure(block("true", mark="later"), "README.md:1: unknown word 'later'; allowed: skip")

    def test_reason_missing(self):
        self.expect_failure(block("true", mark="skip"), "README.md:1: 'skip' needs a reason")

    def test_unreadable_mark(self):
        self.expect_failure("<!-- check skip -->\n" + block("true"), "README.md:1: cannot read")

    def test_mark_of_another_block(self):
        self.expect_failure(block("x = 1", "toml", "fails"),
                            "README.md:1: a check mark before a block that is not sh or console")

    def test_transcript_without_language(self):
        self.expect_failure(block("$ true", ""), "README.md:1: a block with '$ ' must be ```console")

    def test_block_without_end(self):
        self.expect_failure("```sh\ntrue\n", "README.md:1: the block has no end")


if __name__ == "__main__":
    unittest.main()
