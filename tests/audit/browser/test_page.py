# SPDX-License-Identifier: Apache-2.0
"""Pages for audits and sweeps in a real browser: Chromium, headless, driven by Playwright.

The order of events that a page shows is held against the past that the logs alone give.
"""

from __future__ import annotations

import itertools
import random
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import wait_until

pytest.importorskip("pyarrow", reason="traces need pyarrow")

from test_report import HOSTILE, audit_of, overtaking, pasts, random_run, run_of

from busq.audit.page import report
from busq.audit.page.sweep import write_sweep
from busq.audit.result import Finding
from busq.lab.sweep.read import parse
from busq.lab.sweep.result import SweepResult
from busq.trace import Run

pytest_plugins = ["in_chromium"]


class Page:
    """A page of ours, and what the browser reports about it: requests, complaints, dialogs."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.path = path
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())

    def do(self, script: str, *arguments: Any) -> Any:
        return self.page.evaluate(f"(given) => {{ const d = diagrams.get(shownRun); {script} }}", list(arguments))

    def wait(self, expression: str, *arguments: Any) -> None:
        """Until it holds.  The page's own waiting would evaluate a text there, which its policy forbids."""
        wait_until(lambda: bool(self.do(f"return {expression}", *arguments)), what=expression)

    def whole(self) -> None:
        """Go to the scene that holds the whole run, if there is one."""
        tab = self.page.locator(".tab:visible").filter(has_text="whole run")
        if tab.count():
            tab.click()

    def place(self, event: int) -> tuple[float, float]:
        """Where an event of the diagram stands on the screen."""
        self.page.locator("canvas:visible").scroll_into_view_if_needed()
        box = self.page.locator("canvas:visible").bounding_box()
        x, y = self.do("return d.place(given[0])", event)
        return box["x"] + x, box["y"] + y

    def click(self, event: int) -> None:
        self.do("d.goTo(given[0]); d.select(-1)", event)
        self.page.mouse.click(*self.place(event))

    def press(self, *keys: str) -> None:
        self.page.locator("canvas:visible").focus()
        for key in keys:
            self.page.keyboard.press(key)

    def show(self, check: str) -> None:
        self.page.locator(f"button[data-check={check}]:visible").click()

    def events(self) -> list[tuple[int, int]]:
        """The (process, position) of every event of the scene."""
        found = self.do("return d.scene.line.map((l, e) => [d.scene.shown[l], d.scene.position[e]])")
        return [(process, position) for process, position in found]

    def reached(self) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """The past and the future of the chosen event, as the page highlights them."""
        events = self.events()
        marks = self.do("return [[...d.past], [...d.future]]")
        past, future = ({event for event, mark in zip(events, some, strict=True) if mark} for some in marks)
        return past, future

    def view(self) -> tuple[float, float, float]:
        left, scale, top = self.do("return [d.left, d.scale, d.top]")
        return left, scale, top


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open the page of runs, or what stands at a path; at the end nothing may have complained or asked for more."""
    opened: list[tuple[Page, Any]] = []

    def opens(*runs: Run, path: Path | None = None, findings: tuple[Finding, ...] = (), **options: Any) -> Page:
        if path is None:
            path = tmp_path / "report.html"
            report.write(audit_of(*runs, findings=findings), path, runs={run.source.name: run for run in runs})
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        page = Page(context.new_page(), path)
        opened.append((page, context))
        page.whole()
        return page

    yield opens
    for page, context in opened:
        assert page.complaints == []
        assert page.requests == [page.path.as_uri()]
        context.close()


def test_the_table_of_verdicts_says_what_was_found(open_page: Open) -> None:
    run = random_run(11)
    page = open_page(run)
    ((found,), rows) = (audit_of(run).runs, page.page.locator(".verdicts tbody tr").all())
    assert len(rows) == len(found.checks)
    for row in rows:
        check = found.checks[row.get_attribute("data-name")]
        verdict, claimed, count, text = row.locator("td").all_inner_texts()[1:5]
        assert verdict.split()[-1] == check.word
        assert claimed == ("yes" if check.claimed else "not expected")
        is_told = check.count or check.verdict != "unknown"
        assert count == (f"{check.count:,}" if is_told else "–")
        assert text == check.text


def test_a_click_on_an_event_shows_its_past_and_future(open_page: Open) -> None:
    run = random_run(12)
    page, known = open_page(run), pasts(run)
    events = page.events()
    assert sorted(events) == sorted(known)
    for event in random.Random(1).sample(range(len(events)), 6):
        page.click(event)
        here = events[event]
        past, future = page.reached()
        assert past == known[here]
        assert future == {other for other, before in known.items() if here in before}
        told = page.page.locator(".details:visible").inner_text()
        assert f"{len(past):,} events shown are in its past, {len(future):,} in its future" in told


def test_a_cut_of_a_large_run_shows_the_same_past_and_future(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "SCENE_MAX", 500)
    run = random_run(13, processes=6, messages=60)
    page, known = open_page(run), pasts(run)
    page.show("causal")
    assert page.do("return d.scene.through.length") > 0
    events = page.events()
    assert 0 < len(events) < 200
    for event in random.Random(2).sample(range(len(events)), 4):
        page.click(event)
        past, future = page.reached()
        assert past == known[events[event]] & set(events)
        assert future == {other for other in events if events[event] in known[other]}


def test_a_click_beside_all_events_and_escape_clear_the_choice(open_page: Open) -> None:
    page = open_page(overtaking())
    page.click(0)
    assert page.do("return d.selected") == 0
    x, y = page.place(0)
    page.page.mouse.click(x + 40, y + 30)
    assert page.do("return d.selected") == -1
    page.press("ArrowRight")
    assert page.do("return d.selected") >= 0
    page.press("Escape")
    assert page.do("return d.selected") == -1


def test_a_button_leads_to_the_witness_of_its_check(open_page: Open) -> None:
    run = random_run(14, processes=6, messages=40)
    page = open_page(run)
    for check in ("fifo", "causal", "total"):
        page.show(check)
        assert page.page.locator(".tab[aria-pressed=true]:visible").inner_text() == check
        assert page.page.locator(".caption:visible").inner_text() == audit_of(run).runs[0].checks[check].text
        witness = page.do("return [...d.scene.witness]")
        assert len(witness) >= 3
        for event in witness:
            x, y = page.place(event)
            box = page.page.locator("canvas:visible").bounding_box()
            assert box["x"] < x < box["x"] + box["width"]
            assert box["y"] < y < box["y"] + box["height"]


def test_processes_are_hidden_and_shown_again(open_page: Open) -> None:
    page = open_page(random_run(15))
    boxes = page.page.locator(".chip input")
    assert boxes.count() == 4
    height = page.do("return d.height")
    boxes.nth(1).uncheck()
    assert page.do("return d.lines") == [True, False, True, True]
    assert page.do("return d.height") < height
    event = page.do("return d.scene.events[1][0]")
    page.page.mouse.click(*page.place(event))
    assert page.do("return d.selected < 0 || d.isShown(d.selected)")
    page.page.get_by_role("button", name="all", exact=True).click()
    assert page.do("return d.lines") == [True] * 4


def test_a_hidden_process_still_hands_causality_on(open_page: Open) -> None:
    page = open_page(overtaking())
    page.page.locator(".chip input").nth(1).uncheck()
    events = page.events()
    page.click(events.index((2, 0)))  # cleo delivers the answer of bob, which is hidden
    assert (0, 0) in page.reached()[0]


def test_mouse_and_keys_zoom_and_pan(open_page: Open) -> None:
    page = open_page(random_run(16, messages=60))
    page.page.locator("canvas").scroll_into_view_if_needed()
    box = page.page.locator("canvas").bounding_box()
    page.page.mouse.move(box["x"] + 600, box["y"] + 60)
    _, scale, _ = page.view()
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -200)
    page.page.keyboard.up("Control")
    page.wait("d.scale > given[0]", scale)
    left, scale, _ = page.view()
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 400, box["y"] + 60, steps=4)
    page.page.mouse.up()
    assert page.view()[0] == pytest.approx(left + 200 / scale)
    page.press("+")
    assert page.view()[1] > scale
    page.press("-", "-")
    assert page.view()[1] < scale
    left = page.view()[0]
    page.press("PageDown")
    assert page.view()[0] > left
    page.press("Home")
    assert page.view()[0] <= 0
    page.press("0")
    assert page.do("return d.x(d.scene.columns - 1) <= d.width")
    page.page.get_by_role("button", name="Zoom in").click()
    assert page.do("return d.x(d.scene.columns - 1) > d.width")


def test_zooming_keeps_what_is_under_the_pointer_where_it_is(open_page: Open) -> None:
    page = open_page(random_run(16, messages=60))
    event = page.do("return d.scene.events[0][20]")
    page.do("d.goTo(given[0])", event)
    x, y = page.place(event)
    page.page.mouse.move(x, y)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -150)
    page.page.keyboard.up("Control")
    page.wait("d.scale > 16")
    assert page.place(event)[0] == pytest.approx(x, abs=1.5)


def test_keys_walk_along_lines_and_messages(open_page: Open) -> None:
    page = open_page(overtaking())
    events = page.events()
    page.click(events.index((0, 0)))
    page.press("ArrowRight")
    assert events[page.do("return d.selected")] == (0, 1)
    page.press("ArrowLeft", "Enter")  # from the send to a delivery
    process, _ = events[page.do("return d.selected")]
    assert process in (1, 2)
    page.press("Enter")  # and back
    assert events[page.do("return d.selected")] == (0, 0)
    page.press("ArrowDown")
    assert events[page.do("return d.selected")][0] == 1


def test_pointing_at_an_event_tells_what_it_is(open_page: Open) -> None:
    page = open_page(overtaking())
    page.page.mouse.move(*page.place(page.events().index((2, 1))))
    page.page.wait_for_selector(".tip:not([hidden])")
    assert page.page.locator(".tip").inner_text().startswith("cleo delivers hello")


def test_labels_that_are_markup_stay_text(open_page: Open) -> None:
    page = open_page(overtaking(), findings=(Finding("bad-line", HOSTILE, path=HOSTILE, line=1),))
    page.click(page.events().index((0, 1)))
    assert HOSTILE in page.page.locator(".details:visible").inner_text()
    page.click(page.events().index((1, 1)))
    assert HOSTILE in page.page.locator(".details:visible").inner_text()
    assert page.page.locator(".chip").nth(1).inner_text() == HOSTILE
    assert page.page.locator("img").count() == 0
    assert page.page.locator("script").count() == 2


def test_one_run_of_several_is_chosen_and_the_table_is_sorted(open_page: Open) -> None:
    clean = run_of([[("local", "x")]], name="clean")
    page = open_page(clean, random_run(1, name="small"), random_run(2, messages=30, name="large"))
    shown = page.page.locator(".run:visible h2")
    assert shown.inner_text() == "small"  # what is broken comes first
    page.page.get_by_role("button", name="clean").click()
    assert shown.inner_text() == "clean"
    page.page.get_by_role("button", name="large").click()
    page.whole()
    assert page.do("return d.scene.count") == sum(log.num_rows for log in random_run(2, messages=30).logs)
    head = page.page.get_by_role("button", name="deliveries")
    numbers = page.page.locator(".runs tbody td:nth-child(3)")
    head.click()
    rising = [int(text.replace(",", "")) for text in numbers.all_inner_texts()]
    assert rising == sorted(rising)
    head.click()
    assert [int(text.replace(",", "")) for text in numbers.all_inner_texts()] == rising[::-1]


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_of_the_page(open_page: Open, width: int, scheme: str) -> None:
    page = open_page(random_run(18), overtaking(), viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") == width
    assert page.page.evaluate("(t => t.scrollWidth <= t.clientWidth)(document.querySelector('.verdicts').parentNode)")
    ground, ink = (
        sum(map(int, re.findall(r"\d+", page.page.evaluate(f"getComputedStyle(document.body).{name}"))))
        for name in ("backgroundColor", "color")
    )
    assert (ground < ink) is (scheme == "dark")


TARGETS = """
[...document.querySelectorAll("button, select, summary, a[href], label, input:not(label input)")]
    .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
    .filter(([_, box]) => box.width && box.height && (box.width < 24 || box.height < 24))
    .map(([text, box]) => `${text}: ${box.width} x ${box.height}`)
"""
LEVELS = """[...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((one) => one.offsetParent)
    .map((one) => Number(one.tagName[1]))"""


def has_no_jump(levels: list[int]) -> bool:
    """A heading stands one level below the one it belongs to, or above."""
    return levels[0] == 1 and all(b <= a + 1 for a, b in itertools.pairwise(levels))


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("runs", [1, 2])
def test_fingers_hit_what_can_be_pressed_and_headings_have_an_order(open_page: Open, width: int, runs: int) -> None:
    page = open_page(*[random_run(18), overtaking()][:runs], viewport={"width": width, "height": 800})
    page.click(0)
    assert page.page.evaluate(TARGETS) == []
    assert has_no_jump(page.page.evaluate(LEVELS))


def test_the_help_names_the_key_that_goes_to_the_witness(open_page: Open) -> None:
    page = open_page(overtaking())
    page.show("causal")
    page.press("Escape")
    assert "w goes to the witness" in page.page.locator(".hint:visible").inner_text()


def test_a_page_can_be_printed(open_page: Open) -> None:
    page = open_page(random_run(19), color_scheme="dark")
    page.page.emulate_media(media="print")
    page.wait("d.colors.ground === '#ffffff'")
    assert page.page.locator(".zoom").is_hidden()
    assert page.page.pdf().startswith(b"%PDF")


def test_the_policy_keeps_a_page_from_asking_for_more(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report.write(audit_of(overtaking()), path)
    context = browser.new_context()
    page = Page(context.new_page(), path)
    server = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{server.getsockname()[1]}/"
    page.page.evaluate(f"document.body.append(Object.assign(new Image(), {{ src: '{address}' }}))")
    with pytest.raises(Exception, match="fetch"):
        page.page.evaluate(f"fetch('{address}')")
    page.page.wait_for_timeout(100)
    assert page.complaints
    assert all("Content Security Policy" in text for text in page.complaints)
    server.settimeout(0.2)
    with server, pytest.raises(TimeoutError):  # no request has come
        server.accept()
    context.close()


# ---- sweeps ----


def sweep_of() -> SweepResult:
    """What a small grid might have come to; the numbers are made up."""
    grid = parse(
        "title = 'A <b>grid</b>'\nseeds = 2\nkeep = ['execution_time_s']\n[all]\norder = ['mfss', 'cykas', 'sync']\n"
        "processes = [4, 8, 16]\nbandwidth = [10, 1000]\n"
        "[[winner]]\nname = 'first'\nvalue = 'execution_time_s'\norders = ['mfss', 'cykas', 'sync']\n"
        "[[figure]]\nname = 'first'\nkind = 'map'\nof = 'first'\nx = 'bandwidth_bytes_per_s'\ny = 'processes'\n"
    )
    points, winners = [], []
    for number in range(grid.n_points):
        parameters = grid.point(number)
        time_s = (number * 7 % 11 + 1) / 10
        points.append(
            {**parameters, "execution_time_s": time_s, "execution_time_s_ci95": 0.01, "failed": 0, "error": None}
        )
    for row in (row for row in points if row["order"] == "mfss"):
        where = {name: row[name] for name in ("processes", "bandwidth_bytes_per_s")}
        rivals = [one for one in points if all(one[name] == value for name, value in where.items())]
        first, second = sorted(rivals, key=lambda one: one["execution_time_s"])[:2]
        margin = second["execution_time_s"] / first["execution_time_s"]
        level = [second["order"]] if margin < 1.2 else []
        winners.append(
            {
                "winner": "first",
                **where,
                "order": first["order"],
                "execution_time_s": first["execution_time_s"],
                "next": second["order"],
                "margin": margin,
                "level": level,
                "clear": not level,
                "missing": [],
            }
        )
    return SweepResult(grid, "sweep", points, (), winners, {}, (), 2 * len(points), 2 * len(points))


def test_the_page_of_a_sweep_sorts_and_narrows_its_points(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    result = sweep_of()
    write_sweep(result, path)
    page = open_page(path=path).page
    assert page.locator("h1").inner_text() == "A <b>grid</b>"
    points = page.locator("[data-table=points]")
    heads = points.locator("th").all_inner_texts()
    column = heads.index("execution time, s") + 1
    cells = points.locator(f"tbody td:nth-child({column})")
    assert cells.count() == len(result.points)

    def times() -> list[float]:
        return [float(text.split(" ± ")[0]) for text in cells.all_inner_texts()]

    head = points.get_by_role("button", name="execution time, s")
    head.click()
    assert times() == sorted(row["execution_time_s"] for row in result.points)
    head.click()
    assert times() == sorted((row["execution_time_s"] for row in result.points), reverse=True)
    points.get_by_label("order").select_option("cykas")
    assert times() == sorted(
        (row["execution_time_s"] for row in result.points if row["order"] == "cykas"), reverse=True
    )


def test_a_map_of_winners_has_a_cell_for_every_situation(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    result = sweep_of()
    write_sweep(result, path)
    page = open_page(path=path).page
    cells = page.locator("svg.map g")
    assert cells.count() == len(result.winners) == 6
    assert page.locator("svg.map rect.pale").count() == sum(not row["clear"] for row in result.winners)
    told = [title.text_content() for title in cells.locator("title").all()]
    for row, text in zip(result.winners, told, strict=True):
        assert text.startswith(f"{row['order']}: ")
