"""The built documentation in a browser, opened from disk: pages by their files, and the site's own search."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.inspect.browser import Browser

ROOT = Path(__file__).parent.parent
META = "document.querySelector('.md-search-result__meta').innerText"


def build(folder: Path) -> Path:
    """Build the site into a folder, without a server and without the network."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    return folder


class Site:
    """The site in a browser."""

    def __init__(self, folder: Path, browser: Browser) -> None:
        self.folder, self.browser = folder, browser

    def open(self, page: str) -> None:
        """Go to a page, by its file."""
        self.browser.errors.clear()
        self.browser.value("window.before = true")
        self.browser.send("Page.navigate", url=(self.folder / page).as_uri())
        self.browser.until("!window.before && document.readyState === 'complete'")
        self.browser.until("document.documentElement.classList.contains('js')")  # the site's own script has begun

    def search(self, words: str) -> list[list[str]]:
        """What the site's search lists for these words: of each page its address, then those of its sections."""
        if not self.browser.value("location.href.endsWith('/index.html')"):
            self.open("index.html")
            self.browser.until("document.querySelector('iframe[title=search]')?.contentWindow.lunr !== undefined")
        self.browser.value("document.querySelector('.md-search__input').focus()")
        self.browser.value("document.querySelector('.md-search__form').reset()")
        self.browser.value("document.querySelector('.md-search__input').dispatchEvent(new Event('keyup'))")
        self.browser.until(f"/Type to start|Initial/.test({META})", 20)
        self.browser.send("Input.insertText", text=words)
        self.browser.value("document.querySelector('.md-search__input').dispatchEvent(new Event('keyup'))")
        self.browser.until(f"/match|No /.test({META})", 20)
        found = self.browser.value(
            "[...document.querySelectorAll('.md-search-result__item')].map("
            "item => [...item.querySelectorAll('a')].map(a => a.href.replace(/[?][^#]*/, '')))"
        )
        root = self.folder.as_uri() + "/"
        return [[address.removeprefix(root) for address in each] for each in found]
