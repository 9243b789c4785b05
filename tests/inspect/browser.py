"""A headless chromium, driven over its DevTools protocol: open a page, evaluate JavaScript, collect errors."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from tornado.websocket import websocket_connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SETTLED = """(async () => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    await frame();  // what a resize asks for comes with the next frame
    do { await ready; await frame(); } while (layouter.pending);
})()"""
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0")


class Browser:
    """A running browser with one page at a time."""

    def __init__(self, folder: Path, size: str = "1500,850") -> None:
        arguments = [str(CHROMIUM), *_FLAGS, f"--window-size={size}", f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.loop = asyncio.new_event_loop()
        port = self._port(folder / "DevToolsActivePort")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            target = next(each for each in json.load(answer) if each["type"] == "page")
        self.socket = self.loop.run_until_complete(self._connected(target["webSocketDebuggerUrl"]))
        self.count = 0
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    async def _connected(self, address: str) -> Any:
        return await websocket_connect(address, max_message_size=1 << 28)

    def _port(self, path: Path) -> str:
        for _ in range(1200):
            if path.exists() and path.read_text().strip():
                return path.read_text().split()[0]
            time.sleep(0.05)
        raise TimeoutError("chromium did not start in 60 seconds")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command; errors that the page reports meanwhile are kept."""
        self.count += 1
        message = json.dumps({"id": self.count, "method": method, "params": parameters})
        return self.loop.run_until_complete(asyncio.wait_for(self._answer(message, self.count), 30))

    async def _answer(self, message: str, number: int) -> dict[str, Any]:
        await self.socket.write_message(message)
        while True:
            found = json.loads(await self.socket.read_message())
            self._note(found)
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                return found["result"]

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"]["exception"].get("description", "exception"))
        elif message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append(str(parameters["args"]))
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])

    def open(self, path: Path, scheme: str = "light") -> float:
        """Go to a page and wait until it is ready; the seconds that took."""
        self.errors.clear()
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.value("window.wengertReady = false")  # that of the page before
        start = time.perf_counter()
        self.send("Page.navigate", url=path.as_uri())
        while self.value("window.wengertReady") is not True:
            assert time.perf_counter() - start < 30, f"not ready after 30 seconds: {self.errors}"
            time.sleep(0.01)
        return time.perf_counter() - start

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives on the page; of a promise, what it comes to."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def settle(self) -> None:
        """Wait until the page has carried out what was asked of it: its layouts, and then its drawing."""
        self.value(_SETTLED)

    def resize(self, width: int, height: int) -> None:
        """Give the window another size; a narrow one is a phone's."""
        phone = width < 600
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)

    def until(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until a JavaScript expression is true: what a page does next may take it a moment."""
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, f"not so after {seconds:g} seconds: {expression}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, with the mouse."""
        x, y = self.value(f"""(() => {{
            const box = document.querySelector({selector!r}).getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, shift: bool = False) -> None:
        """Press a key, such as "a" or "ArrowLeft"."""
        text = {"text": key} if len(key) == 1 else {}
        modifiers = 8 if shift else 0
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

    def text(self, selector: str) -> str:
        """The text of an element as it is shown."""
        return self.value(f"document.querySelector({selector!r}).innerText")

    def count_of(self, selector: str) -> int:
        """How many elements there are."""
        return self.value(f"document.querySelectorAll({selector!r}).length")

    def screenshot(self, path: Path) -> None:
        """What the page looks like."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """End the browser."""
        self.socket.close()
        self.process.terminate()
        self.process.wait(10)
        self.loop.close()
