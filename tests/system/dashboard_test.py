#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Method: a server and four workers as processes, one of which is paused; Chromium shows the pages. Without
Chromium or its driver the test is skipped."""

import re
import sys
import unittest

import browser
import dashboard_bed

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt.
PAUSED = 2
# The script has asked the server and drawn the chart.
DRAWN = "document.querySelector('#chart polyline')"


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
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.browser.open(cls.bed.login_url())
        cls.bed.wait_until("/v1/status", lambda status: status["blocks_completed"] > 1000)
        cls.bed.pause(PAUSED)
        cls.bed.wait_until("/v1/history/1", lambda history: any(
            stall["ranks"] == [PAUSED] and stall["lasted_ms"] > 500 for stall in history["stalls"]))

    def look(self, path, condition):
        """Opens a page, waits until its script has made the expression true, and returns the DOM."""
        self.browser.open(self.bed.url(path))
        self.browser.wait_for(condition)
        return self.browser.run("return document.documentElement.outerHTML")

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
        dom = self.look("/", DRAWN)
        self.expect_paused_rank(dom)
        self.assertIn("<polyline", dom)
        self.assertNotRegex(dom, r'<svg id="chart"[^>]*hidden')
        self.assertRegex(dom, r'<button id="pause" type="button">Pause</button>')
        self.assertRegex(dom, r"Up for [\d,]+ s")
        self.assertEqual(len(rows_of(dom, "traffic")), 3)

        self.assertRegex(rows_of(dom, "cores")[0][1], r"^\d+ %$")
        self.assertRegex(rows_of(dom, "cores")[0][2], r"^\d+ %$")

    def test_page_says_when_the_server_hangs(self):
        self.look("/", DRAWN)
        self.bed.pause_server()
        try:
            self.browser.wait_for("document.getElementById('live').textContent === 'The server does not answer'")
        finally:
            self.bed.resume_server()
        self.browser.wait_for("document.getElementById('live').textContent.startsWith('Up for')")

    # Reads the page as it is served, as a reader without scripts gets it.
    def test_page_is_complete_without_scripts(self):
        status, page = self.bed.get("/")
        self.assertEqual(status, 200)
        self.expect_paused_rank(page)
        self.assertNotIn("<polyline", page.split("<script")[0])
        self.assertIn('<noscript><meta http-equiv="refresh"', page)

    def test_page_of_the_job_has_ranks_and_stalls(self):
        dom = self.look("/jobs/1", DRAWN)
        self.assertEqual([row[0] for row in rows_of(dom, "traffic")], ["Results"])
        self.assertRegex(rows_of(dom, "traffic")[0][3], r"^[\d,]+$")
        ranks = rows_of(dom, "ranks")
        self.assertEqual([row[0] for row in ranks], ["0", "1", "2", "3"])
        self.assertEqual(ranks[0][1], "member")
        self.assertRegex(ranks[0][3], r"^127\.0\.0\.1:\d+$")
        self.assertIn(str(PAUSED), [row[0] for row in rows_of(dom, "stalls")])
        self.assertEqual([row[0] for row in rows_of(dom, "begins")], ["0", "1", "2", "3"])
        self.assertRegex(dom, r"All-reduces [\d,]+ to [\d,]+, \d+ of them\.")
        self.assertRegex(dom, r"Up for [\d,]+ s")

    def test_events_are_renewed(self):
        self.look("/events", "document.getElementById('events').rows.length > 5")
        # A refused command is one line more.
        self.bed.command(["job", "evict", "1", "77", "--name", "rack1"])
        self.browser.wait_for("document.getElementById('events').textContent.includes('command_refused')")

    def test_themes_follow_the_browser(self):
        self.browser.open(self.bed.url())
        light = self.colours("light")
        dark = self.colours("dark")
        self.assertGreater(light["back"], light["text"])
        self.assertLess(dark["back"], dark["text"])
        self.browser.set_theme("light")

    def colours(self, theme):
        """Returns the brightness of the page's background and of its text, 0 to 765."""
        self.browser.set_theme(theme)
        style = self.browser.run("const s = getComputedStyle(document.body); return {back: s.backgroundColor, text: s.color}")
        return {name: sum(int(part) for part in re.findall(r"\d+", value)[:3]) for name, value in style.items()}

    # Wide tables scroll in their own boxes.
    def test_narrow_screens_do_not_scroll_sideways(self):
        self.addCleanup(self.browser.command, "Emulation.clearDeviceMetricsOverride")
        self.browser.set_width(360)
        for path, ready in (("/", DRAWN), ("/jobs/1", DRAWN), ("/events", "true")):
            self.look(path, ready)
            widths = self.browser.run("return [innerWidth, document.documentElement.scrollWidth]")
            self.assertEqual(widths, [360, 360], path)

    def test_narrow_screens_show_the_details_of_events(self):
        self.addCleanup(self.browser.command, "Emulation.clearDeviceMetricsOverride")
        self.browser.set_width(360)
        self.look("/events", "document.querySelector('#events td.text')")
        rights = self.browser.run(
            "return [...document.querySelectorAll('#events td.text')].map(e => e.getBoundingClientRect().right)")
        self.assertLessEqual(max(rights), 360)

    def test_keys_reach_the_links_the_button_and_the_tables(self):
        self.look("/", DRAWN)
        reached = []
        for _ in range(12):
            self.browser.press(browser.TAB)
            reached.append(self.browser.run(
                "const e = document.activeElement; return e.getAttribute('aria-labelledby') || e.textContent"))
        self.assertEqual(reached, ["Skip to the content", "Server", "Events", "Pause", "waits-title", "jobs-title", "1",
                                   "late-title", "traffic-title", "cores-title", "JSON", "Metrics"])
        self.assertNotEqual(self.browser.run("return getComputedStyle(document.activeElement).outlineStyle"), "none")

    def test_strangers_see_nothing(self):
        status, text = self.bed.get("/", token=None)
        self.assertEqual(status, 401)
        self.assertIn("this server asks for its token", text)
        status, text = self.bed.get("/v1/status", token="wrong token, but long")
        self.assertEqual(status, 401)
        self.assertIn("the token is wrong", text)
        self.assertIn('tributary_http_requests_total{result="wrong_token"}', self.bed.get("/metrics")[1])


if __name__ == "__main__":
    if browser.program() is None or browser.driver() is None:
        print("skipped: there is no Chromium or no chromedriver; tools/install-deps.sh --with-ops installs both")
        sys.exit(SKIPPED)
    unittest.main()
