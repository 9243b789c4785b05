"""Pages to look at, each made once, and a browser to look at them with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wengert as wg

MEASURES = Path(__file__).with_name("measures.js")
DESKTOP, PHONE = (1400, 1000), (390, 844)


def textbook(x1, x2):
    """The function of the recitation."""
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


class Step:
    """An MLP with its loss and its training step."""

    def __init__(self) -> None:
        wg.manual_seed(0)
        self.model = wg.nn.Sequential(wg.nn.Linear(64, 32), wg.nn.ReLU(), wg.nn.Linear(32, 10))
        self.optimizer = wg.optim.SGD(self.model.parameters(), lr=0.1)
        self.batch = wg.random.normal((16, 64)), wg.tensor([i % 10 for i in range(16)])

    def loss(self, x, y):
        return wg.cross_entropy(self.model(x), y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss


def _resnet(path: Path) -> Path:
    wg.manual_seed(0)
    model = wg.models.resnet18()
    x, y = wg.random.normal((2, 3, 32, 32)), wg.tensor([1, 2])
    return wg.inspect.page(lambda x, y: wg.cross_entropy(model(x), y), path, x, y)


def _gpt(path: Path) -> Path:
    """GPT-2 with its twelve blocks, and narrow, so that its page is made quickly."""
    wg.manual_seed(0)
    config = wg.models.GPTConfig(vocab_size=64, n_positions=16, n_embd=24, n_layer=12, n_head=2)
    model = wg.models.GPT(config)
    tokens = wg.tensor([[i % 64 for i in range(9)]])
    x, y = tokens[:, :-1], tokens[0, 1:]
    return wg.inspect.page(lambda x, y: wg.cross_entropy(model(x)[0], y), path, x, y)


def _mlp(path: Path) -> Path:
    step = Step()
    return wg.inspect.page(wg.compile(step.step), path, *step.batch)


_MADE: dict[str, Callable[[Path], Path]] = {
    "textbook": lambda path: wg.inspect.page(textbook, path, 2.0, 5.0),
    "mlp": _mlp,
    "resnet": _resnet,
    "gpt": _gpt,
}


@pytest.fixture(scope="session")
def page_of(tmp_path_factory) -> Callable[[str], Path]:
    """A page by its name, made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def find(name: str) -> Path:
        if name not in made:
            made[name] = _MADE[name](folder / f"{name}.html")
        return made[name]

    return find


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Any]:
    """A browser with a desktop's window."""
    pytest.importorskip("tornado", reason="the browser is driven over a websocket of tornado's")
    from tests.inspect.browser import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("there is no chromium to open pages with")
    browser = Browser(tmp_path_factory.mktemp("browser"), "1400,1000")
    browser.resize(1400, 1000)
    yield browser
    browser.close()


@pytest.fixture
def at(browser, page_of) -> Callable[..., Any]:
    """Open a page in a window of a size."""

    def open_page(name: str, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Any:
        browser.resize(*size)
        browser.open(page_of(name), scheme)
        browser.settle()
        browser.value(MEASURES.read_text())
        return browser

    return open_page
