#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Method: a server and four workers as processes, one of which is paused; Chromium shows the pages. Without
Chromium the test is skipped."""

import re
import sys
import unittest

import dashboard_bed

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt.
PAUSED = 2


def rows_of(dom, table):
    """Returns the rows of a table as lists of texts."""
    body = re.search(rf'<tbody id="{table}">(.*?)</tbody>', dom, re.S).group(1)
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.S)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td.*?</td>", row, re.S)] for row in rows]


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = dashboard_bed.Bed()
        cls.addClassCleanup(cls.bed.__exit__)
        cls.bed.wait_until("/v1/status", lambda status: status["blocks_completed"] > 1000)
        cls.bed.pause(PAUSED)
        cls.bed.wait_until("/v1/history/1", lambda history: any(
            stall["ranks"] == [PAUSED] and stall["lasted_ms"] > 500 for stall in history["stalls"]))

    def expect_paused_rank(self, dom):
        waits = rows_of(dom, "waits")
        advice = [row[3] for row in waits if row[:2] == ["1", str(PAUSED)]]
        self.assertEqual(len(advice), 1, waits)
        self.assertIn(f"rank {PAUSED} ", advice[0])
        late = rows_of(dom, "late")
        self.assertEqual([row[1] for row in late], ["0", "1", "2", "3"])
        self.assertRegex(late[PAUSED][2], r"^\d+\.\d s$|^\d{3} ms$")
        self.assertRegex(dom, r'<rect class="l[4-8]"')

    def test_script_renews_the_tables_and_draws_the_chart(self):
        dom = self.bed.look("/", "--dump-dom")
        self.expect_paused_rank(dom)
        self.assertIn("<polyline", dom)
        self.assertNotRegex(dom, r'<svg id="chart"[^>]*hidden')
        self.assertRegex(dom, r'<button id="pause" type="button">Pause</button>')
        self.assertRegex(dom, r"Up for [\d,]+ s")
        self.assertEqual(len(rows_of(dom, "traffic")), 3)

    # Chromium needs scripts to print the DOM, so this test reads the page as it is served.
    def test_page_is_complete_without_scripts(self):
        status, page = self.bed.get("/")
        self.assertEqual(status, 200)
        self.expect_paused_rank(page)
        self.assertNotIn("<polyline", page.split("<script")[0])
        self.assertIn('<noscript><meta http-equiv="refresh"', page)

    def test_page_of_the_job_has_ranks_and_stalls(self):
        dom = self.bed.look("/jobs/1", "--dump-dom")
        ranks = rows_of(dom, "ranks")
        self.assertEqual([row[0] for row in ranks], ["0", "1", "2", "3"])
        self.assertEqual(ranks[0][1], "member")
        self.assertRegex(ranks[0][3], r"^127\.0\.0\.1:\d+$")
        self.assertIn(str(PAUSED), [row[0] for row in rows_of(dom, "stalls")])
        self.assertRegex(dom, r"Up for [\d,]+ s")

    def test_strangers_see_nothing(self):
        status, text = self.bed.get("/", token=None)
        self.assertEqual(status, 401)
        self.assertIn("this server asks for its token", text)
        status, text = self.bed.get("/v1/status", token="wrong token, but long")
        self.assertEqual(status, 401)
        self.assertIn("the token is wrong", text)
        self.assertIn('tributary_http_requests_total{result="wrong_token"}', self.bed.get("/metrics")[1])


if __name__ == "__main__":
    if dashboard_bed.browser() is None:
        print("skipped: there is no Chromium; apt-get install chromium installs it")
        sys.exit(SKIPPED)
    unittest.main()
