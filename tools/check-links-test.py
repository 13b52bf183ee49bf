#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/check-links.py with small trees."""

import importlib.util
import tempfile
import unittest
from pathlib import Path

spec = importlib.util.spec_from_file_location("check_links", Path(__file__).with_name("check-links.py"))
check_links = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_links)


class Links(unittest.TestCase):
    def broken(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_links.broken_links(root)

    def test_files_headings_and_the_web_are_found(self):
        self.assertEqual(self.broken({
            "README.md": "[a](docs/a.md) [b](docs/a.md#the-first-part) [c](https://example.org/x) [d](docs) ![e](e.svg)",
            "docs/a.md": "# A\n## The `first` part\n[up](../README.md) [here](#a) [twice](#twice-1)\n## Twice\n## Twice",
            "e.svg": ""}), [])

    def test_links_that_lead_nowhere_are_named_with_their_line(self):
        self.assertEqual(self.broken({"a.md": "# A\n\n[b](b.md) [c](#c)\n[d](../outside.md)\n[e](e.md#a)", "e.md": "# E"}), [
            "a.md:3: b.md: no such file", "a.md:3: #c: no such heading", "a.md:4: ../outside.md: no such file",
            "a.md:5: e.md#a: no such heading"])

    def test_a_link_out_of_the_tree_is_refused(self):
        self.assertEqual(self.broken({"a.md": "[t](../)"}), ["a.md:1: ../: outside of the tree"])

    def test_code_has_no_links_and_no_headings(self):
        self.assertEqual(self.broken({"a.md": "`[x](y)`\n```sh\n# no heading\n[x](y)\n```\n[z](#no-heading)"}),
                         ["a.md:6: #no-heading: no such heading"])


if __name__ == "__main__":
    unittest.main()
