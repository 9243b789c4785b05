"""The long article says what was measured, shows what the compiler writes, and can be read on a dark page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from wengert.backends.cpu import toolchain

DOCS = Path(__file__).parent.parent / "docs"
TEXT = (DOCS / "article.md").read_text()
PICTURES = re.findall(r"!\[(.*?)\]\(images/(.*?)\)", TEXT)


@pytest.mark.skipif(toolchain.compiler() is None, reason="the article shows C programs")
def test_its_numbers_and_pictures_are_those_of_what_was_measured() -> None:
    command = [sys.executable, str(DOCS / "article.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_it_is_as_long_as_an_article() -> None:
    prose = re.sub(r"^```.*?^```\n|<!--.*?-->|</?span.*?>", "", TEXT, flags=re.S | re.M)
    assert 2500 <= len(prose.split()) <= 5000
    assert len(PICTURES) >= 8 and len(re.findall("<span data-said=", TEXT)) >= 30


@pytest.mark.parametrize(("alt", "name"), PICTURES, ids=[name for _, name in PICTURES])
def test_a_picture_has_words_and_no_background(alt: str, name: str) -> None:
    root = ElementTree.parse(DOCS / "images" / name).getroot()
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert len(alt.split()) >= 4 and root[0].tag.endswith("title") and root[0].text
    rectangles = [e for e in root.iter() if e.tag.endswith("rect")]
    assert not [
        e for e in rectangles if float(e.get("width", 0)) >= 0.9 * width and float(e.get("height", 0)) >= 0.9 * height
    ]
    words = [e for e in root.iter() if e.tag.endswith("text")]
    assert words and all(int(e.get("font-size", 0)) >= 11 for e in words)
    for word in words:  # a letter is about 0.55 of its size wide
        across = 0.55 * int(word.get("font-size", 0)) * len(word.text or "")
        x = float(word.get("x", 0))
        left = {"start": x, "middle": x - across / 2, "end": x - across}[word.get("text-anchor", "start")]
        assert left >= -6 and left + across <= width + 6, word.text
        assert 0 <= float(word.get("y", 0)) <= height
