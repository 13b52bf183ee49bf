# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that a test steers through chromedriver, over WebDriver's JSON (w3.org/TR/webdriver2)."""

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

# Chromium asks nobody but the server of the test. Root needs --no-sandbox.
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
TAB = "\ue004"
# Longer than anything takes on a loaded machine; reached only if something hangs.
LIMIT_S = 120


def program():
    """Returns the path of Chromium; None if the machine has none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def driver():
    """Returns the path of chromedriver; None if the machine has none."""
    return shutil.which("chromedriver")


class Browser:
    """Use it as a context manager."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tributary-browser-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.session = ""
        self.process = subprocess.Popen([driver(), "--port=" + self.address.rsplit(":", 1)[1]],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._wait_for_driver()
            options = {"binary": program(), "args": [*FLAGS, f"--user-data-dir={self.folder}/data"]}
            answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
            self.session = f"/session/{answer['sessionId']}"
        except BaseException:
            self.__exit__()
            raise

    def _wait_for_driver(self):
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                self._ask("GET", "/status")
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)["value"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.session:
            self._ask("DELETE", self.session)
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, url):
        self._ask("POST", f"{self.session}/url", {"url": url})

    def run(self, script):
        """Returns what a function with this body returns in the page."""
        return self._ask("POST", f"{self.session}/execute/sync", {"script": script, "args": []})

    def wait_for(self, expression):
        """Waits until the expression is true in the page, and returns its value."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            value = self.run(f"return {expression}")
            if value:
                return value
            time.sleep(0.1)
        raise RuntimeError(f"not true within {LIMIT_S} s: {expression}")

    def command(self, name, **parameters):
        """Sends a command of the DevTools protocol."""
        return self._ask("POST", f"{self.session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def set_width(self, pixels):
        self.command("Emulation.setDeviceMetricsOverride", width=pixels, height=800, deviceScaleFactor=1, mobile=False)

    def set_theme(self, name):
        """Sets the colours that the user prefers: "dark" or "light"."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key):
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._ask("POST", f"{self.session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
