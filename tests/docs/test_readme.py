# SPDX-License-Identifier: Apache-2.0
"""What the README and the pages of the documentation say of the same thing."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs" / "howto" / "install.md").read_text(encoding="utf-8")
HOW_FAST = (ROOT / "docs" / "results" / "how-fast.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("what", ["Python", "system", "processor"])
def test_the_readme_and_the_install_page_agree_on_what_was_tried(what: str) -> None:
    rows = [re.findall(rf"^\| {what} \|.*$", page, re.MULTILINE) for page in (README, INSTALL)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 1


def test_the_figure_for_queues_stands_beside_the_two_lines_that_change_and_is_the_measured_one() -> None:
    (paragraph,) = (part for part in README.split("\n\n") if "change two lines" in part)
    assert "2 to 6 times as many objects" in paragraph
    table = HOW_FAST.partition("## Queues of objects")[2].partition("\n## ")[0]
    (row,) = re.findall(r"^\| multiprocessing\.Queue \|(.*)$", table, re.MULTILINE)
    ratios = [float(ratio) for ratio in re.findall(r"\(([\d.]+)x\)", row)]
    assert (round(min(ratios)), round(max(ratios))) == (2, 6)


def test_the_figures_for_bytes_say_that_they_are() -> None:
    head = re.findall(r"^\|.*\n\|---.*\n\| multiprocessing\.Queue \|", README, re.MULTILINE)
    assert len(head) == 1
    assert "bytes through `send`" in head[0]
