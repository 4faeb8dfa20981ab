# SPDX-License-Identifier: Apache-2.0
"""The page of a stage in a real browser, with the keyboard alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from conftest import PATIENCE_S, wait_until

from busq import scenario
from busq.stage import show

pytest.importorskip("matplotlib", reason="diagrams need matplotlib")

pytest_plugins = ["in_chromium"]


class Tab:
    """A tab with a stage, and what the browser complained of."""

    def __init__(self, browser: Any, url: str) -> None:
        self.page = browser.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(url)
        self.page.wait_for_selector(".choices button")

    def steps(self) -> list[str]:
        shown = "[...document.querySelectorAll('#steps > li')].map((item) => item.firstChild.textContent)"
        return [str(step) for step in self.page.evaluate(shown)]

    def word(self) -> str:
        return str(self.page.locator("#word").inner_text())

    def press(self, key: str, steps: int) -> None:
        """Press a key, and wait until so many steps have happened."""
        self.page.keyboard.press(key)
        wait_until(lambda: len(self.steps()) == steps, what=f"{steps} steps")

    def focus_by_tab(self, name: str) -> None:
        """Go on with the tabulator until a button has the focus."""
        for _ in range(200):
            if self.page.evaluate("document.activeElement.textContent.trim()") == name:
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the tabulator never comes to {name!r}")


def test_an_execution_is_conducted_with_the_keyboard_alone(browser: Any, tmp_path: Path) -> None:
    with show("fifo", ["ann", "bob", "cid"]) as server:
        tab = Tab(browser, server.url)
        tab.press("3", 1)
        assert tab.steps() == ["ann sends m1 to everybody"]
        tab.focus_by_tab("causal")
        tab.page.keyboard.press("Enter")
        wait_until(lambda: "causal breaks in 4 steps" in tab.word(), what="a way")
        for steps in range(2, 6):
            tab.press("ArrowRight", steps)
        wait_until(lambda: "causal is broken, which this order does not promise" in tab.word(), what="the violation")
        assert tab.page.locator("#properties .broken").first.inner_text() == "causal is broken"
        assert tab.page.locator("#diagram svg").count() == 1
        conducted = tab.steps()
        tab.press("ArrowLeft", 4)
        tab.press("ArrowRight", 5)
        assert tab.steps() == conducted == unquote(tab.page.url.partition("#")[2]).split("\n")

        again = Tab(browser, tab.page.url)  # the link
        wait_until(lambda: again.steps() == conducted, what="the same execution")
        again.focus_by_tab("Export scenario")
        with again.page.expect_download() as exported:
            again.page.keyboard.press("Enter")
        exported.value.save_as(tmp_path / "stage.scenario")
        played = scenario.load(tmp_path / "stage.scenario").execution
        assert not played.judge(["causal"])["causal"].ok

        again.press("ArrowLeft", 4)
        again.page.keyboard.press("r")
        wait_until(lambda: len(again.steps()) == 5, what="a random step")
        again.page.keyboard.press("p")
        wait_until(lambda: len(again.steps()) > 6, what="random play")
        again.page.keyboard.press("Escape")
        wait_until(lambda: again.page.locator("#play[aria-pressed=false]").count() == 1, what="the end of random play")
        assert tab.complaints == again.complaints == []


def test_a_link_that_leads_nowhere_is_explained(browser: Any) -> None:
    with show("fifo", ["ann", "bob"]) as server:
        tab = Tab(browser, f"{server.url}#bob%20receives%20data%20m1")
        wait_until(lambda: "step 1, 'bob receives data m1'" in tab.word(), what="an explanation")
        assert tab.steps() == []
        tab.press("1", 1)


def test_a_search_is_given_up_by_a_key_and_by_a_button(browser: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """It would see 20,000 states otherwise, and keep the page for a minute; the server forgets it, too."""
    with show("lamport", ["ann", "bob", "cid"]) as server:
        tab = Tab(browser, server.url)
        for way in ("Escape", "Tab"):
            tab.focus_by_tab("total")
            tab.page.keyboard.press("Enter")
            wait_until(lambda: "Searching" in tab.word(), what="a search")
            if way == "Tab":
                tab.focus_by_tab("Give up the search")
                way = "Enter"
            tab.page.keyboard.press(way)
            wait_until(lambda: "to break total was given up" in tab.word(), what="its end")
            assert tab.page.locator("#give-up:visible").count() == 0
            assert tab.page.evaluate("document.activeElement.textContent.trim()") == "total"
        tab.press("1", 1)
        assert tab.complaints == []
    assert "Traceback" not in capfd.readouterr().err
