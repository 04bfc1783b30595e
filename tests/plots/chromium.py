"""A headless Chromium, driven through its DevTools over two pipes: no port, no driver, no network."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_LIMIT_S = 120.0


def find_chromium() -> str | None:
    """Return the path of a browser, None where none is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser; :meth:`open` gives a page."""

    def __init__(self, path: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        words = ["bash", "-c", command, "chromium", path, *_FLAGS, f"--user-data-dir={profile}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # A session of its own: closing ends the browser's many processes and nothing else.
        self._process = subprocess.Popen(words, pass_fds=(to_read, to_write), start_new_session=True, **quiet)
        os.close(to_read)
        os.close(to_write)
        self._rest, self._last_id = b"", 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the browser and all processes that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def _next(self, until_s: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert time.monotonic() < until_s, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Return the answer to a command; events that come before it are kept."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until_s = time.monotonic() + _LIMIT_S
        while True:
            found = self._next(until_s)
            if found.get("id") == self._last_id:
                assert "error" not in found, found
                return found["result"]
            self.events.append(found)

    def wait_for(self, event: str) -> None:
        """Wait until an event has come, now or before."""
        until_s = time.monotonic() + _LIMIT_S
        while not any(found.get("method") == event for found in self.events):
            self.events.append(self._next(until_s))

    def open(self, path: Path) -> "Page":
        """Return a page with a file in it, loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable", session)
        self.events.clear()
        self.send("Page.navigate", session, url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        return Page(self, session, target)


class Page:
    """A loaded page."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def close(self) -> None:
        """Close the page; its renderer ends."""
        self._browser.send("Target.closeTarget", targetId=self._target)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the page's session."""
        return self._browser.send(method, self._session, **params)

    def run(self, script: str) -> Any:
        """Return the value of an expression; what it throws is an error here."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def complaints(self) -> list[str]:
        """Return what stands on the console, thrown or logged."""
        self.run("1")  # what was thrown before has come by now
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self._browser.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        """Return every address that the page asked for."""
        sent = (event for event in self._browser.events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]
