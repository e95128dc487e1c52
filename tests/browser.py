"""A real browser without a window: Chromium, spoken to through a pipe (DevTools protocol)."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
]
# Seconds that it may take to answer.
_PATIENCE = 60.0
# Chromium reads commands from file 3 and writes answers to file 4.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page of one browser.

    Parameters
    ----------
    profile
        Folder of its own, in which it also puts what pages save.
    """

    def __init__(self, profile: Path) -> None:
        self.downloads = profile / "downloads"
        self.downloads.mkdir(parents=True, exist_ok=True)
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        command = [str(CHROMIUM), *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        ends = (to_browser, from_browser)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, *map(str, ends), *command],
            pass_fds=ends,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number = b"", 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def send(self, method: str, **params: Any) -> Any:
        """A command of the protocol, and what it returns."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None and not method.startswith(("Browser.", "Target.")):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], _PATIENCE)
            part = os.read(self._from, 2**16) if ready else b""
            if not part:
                raise RuntimeError("the browser is gone, or says nothing")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded":
            self.errors.append(params["entry"]["text"])
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return message

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def run(self, code: str) -> Any:
        """What an expression of JavaScript is."""
        found = self.send("Runtime.evaluate", expression=code, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{code}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, code: str, seconds: float = 10.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(code):
            if time.monotonic() > end:
                raise TimeoutError(code)
            time.sleep(0.02)

    def size(self, width: int, height: int, *, touch: bool = False) -> None:
        """The size of the window, and whether it is one for fingers."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=touch)

    def dark(self, wanted: bool) -> None:
        """Whether the user prefers dark colours."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def middle(self, selector: str) -> tuple[float, float]:
        """The middle of an element, which is scrolled to."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        return x, y

    def mouse(self, kind: str, x: float, y: float) -> None:
        """A mouse event: ``mousePressed``, ``mouseMoved``, ``mouseReleased``."""
        button = {"button": "left", "buttons": 1 - (kind == "mouseReleased"), "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def click(self, selector: str) -> None:
        """Press and release the mouse on an element."""
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def touch(self, kind: str, *points: tuple[float, float]) -> None:
        """A touch event: ``touchStart``, ``touchMove``, ``touchEnd``."""
        where = [{"x": x, "y": y} for x, y in points]
        self.send("Input.dispatchTouchEvent", type=kind, touchPoints=where)

    def tap(self, selector: str) -> None:
        """A finger on an element, and off again."""
        self.touch("touchStart", self.middle(selector))
        self.touch("touchEnd")

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        name = " " if key == "Space" else key
        code = {"Enter": 13, "Space": 32, "Backspace": 8, "Escape": 27, "Tab": 9}
        code |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        params = {"key": name, "windowsVirtualKeyCode": code.get(key, ord(key[0].upper()))}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **params)
        self.send("Input.dispatchKeyEvent", type="keyUp", **params)

    def picture(self, path: Path) -> None:
        """Write what the window shows as a PNG file."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def saved(self, pattern: str = "*.csv", seconds: float = 10.0) -> Path:
        """The one file that a page saved, which is moved out of the way of the next."""
        end = time.monotonic() + seconds
        # A browser reserves the name with an empty file, over which it moves the whole one.
        while not (found := [path for path in self.downloads.glob(pattern) if path.stat().st_size]):
            self.run("0")
            if time.monotonic() > end:
                raise TimeoutError(f"nothing was saved like {pattern}")
            time.sleep(0.02)
        (path,) = found
        moved = path.with_name(f"taken-{path.name}")
        return path.rename(moved.with_suffix(".taken"))

    def close(self) -> None:
        """End the browser."""
        os.close(self._to)
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._from)
