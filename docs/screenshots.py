"""The pictures of pages in docs/images: of four computations, taken in Chromium at a desktop's and a phone's size.

In: nothing but the library; GPT-2 has its 124 million parameters, drawn at random. Out: PNG files of 256 colours.
`python docs/regenerate.py --screenshots` runs it, in about a minute; it needs chromium, tornado and pillow.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import wengert as wg

ROOT = Path(__file__).parent.parent
IMAGES = Path(__file__).parent / "images"
DESKTOP, PHONE = (1400, 1000), (390, 844)


def f(x1: wg.Tensor, x2: wg.Tensor) -> wg.Tensor:
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


def textbook(path: Path) -> Path:
    """The page of the recitation's function."""
    return wg.inspect.page(f, path, 2.0, 5.0)


def mlp(path: Path) -> Path:
    """The page of an MLP's training step."""
    model = wg.nn.Sequential(wg.nn.Linear(64, 32), wg.nn.ReLU(), wg.nn.Linear(32, 10))
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = wg.random.normal((16, 64)), wg.tensor([i % 10 for i in range(16)])
    return wg.inspect.page(wg.compile(step), path, x, y)


def resnet(path: Path) -> Path:
    """The page of the loss of a ResNet-18 on two small images."""
    model = wg.models.resnet18(num_classes=10)

    def loss(images: wg.Tensor, labels: wg.Tensor) -> wg.Tensor:
        return wg.cross_entropy(model(images), labels)

    return wg.inspect.page(loss, path, wg.random.normal((2, 3, 64, 64)), wg.tensor([3, 7]))


def gpt2(path: Path) -> Path:
    """The page of the loss of GPT-2 on eight tokens."""
    model = wg.models.GPT(wg.models.GPTConfig.gpt2("124M"))

    def loss(tokens: wg.Tensor, targets: wg.Tensor) -> wg.Tensor:
        return wg.cross_entropy(model(tokens)[0], targets)

    words = [464, 2068, 7586, 21831, 11687, 625, 262, 16931, 3290]
    return wg.inspect.page(loss, path, wg.tensor([words[:-1]]), wg.tensor(words[1:]))


class Picture(NamedTuple):
    """A picture: of which page, at which size, and what is done on the page before it is taken."""

    name: str
    page: Callable[[Path], Path]
    size: tuple[int, int] = DESKTOP
    script: str = ""


SUM = "pick(model.inputs[1], true)"  # where two paths meet
KERNEL = """view('compiler').then(() => {
    compiler.pane.about.onPick(compiler.pane.items.find((item) => item.text[0].startsWith('3:')));
})"""
PICTURES = (
    Picture("inspect-f", textbook, script=SUM),
    Picture("inspect-f-phone", textbook, PHONE, SUM),
    Picture("inspect-mlp", mlp),
    Picture("inspect-mlp-phone", mlp, PHONE),
    Picture("inspect-compiler", mlp, script=KERNEL),
    Picture("inspect-resnet", resnet),
    Picture("inspect-resnet-phone", resnet, PHONE),
    Picture("inspect-gpt2", gpt2),
    Picture("inspect-gpt2-phone", gpt2, PHONE),
)


def take(names: list[str]) -> None:
    """Take the pictures of these names, or all."""
    sys.path.insert(0, str(ROOT))
    from PIL import Image
    from tests.inspect.browser import Browser

    wanted = [picture for picture in PICTURES if not names or picture.name in names]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made: dict[str, Path] = {}
        browser = Browser(Path(folder) / "browser")
        try:
            for picture in wanted:
                kind = picture.page.__name__
                if kind not in made:
                    wg.manual_seed(0)
                    made[kind] = picture.page(Path(folder) / f"{kind}.html")
                browser.resize(*picture.size)
                browser.open(made[kind])
                browser.settle()
                browser.value(f"Promise.resolve({picture.script or 0}).then(() => 0)")
                browser.settle()
                target = IMAGES / f"{picture.name}.png"
                browser.screenshot(target)
                Image.open(target).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)
                print(f"{target.relative_to(ROOT)}  {target.stat().st_size / 1e3:.0f} kB")
        finally:
            browser.close()
