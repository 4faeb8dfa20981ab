# SPDX-License-Identifier: Apache-2.0
"""Space-time diagrams: what is in the picture is what happened, no more and no less."""

from __future__ import annotations

import json
import random
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

from busq import diagram, orders
from busq.execution import Event, Execution, message_name
from busq.lab.diagram import layout as layouts
from busq.lab.diagram.words import abbreviate
from busq.lab.examples import plays
from busq.spec import History
from busq.stage import Stage

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")

RED = "#d1231c"


class Picture:
    """An SVG, read back: its named elements, their styles, and its text."""

    def __init__(self, path: Path) -> None:
        svg = "{http://www.w3.org/2000/svg}"
        root = ElementTree.fromstring(path.read_text())
        self.groups = {group.get("id", ""): group for group in root.iter(f"{svg}g")}
        self.texts = Counter("".join(text.itertext()) for text in root.iter(f"{svg}text"))
        self.width, self.height = (float(root.get(side, "").removesuffix("pt")) for side in ("width", "height"))

    def named(self, prefix: str) -> list[str]:
        return [name for name in self.groups if name.startswith(prefix)]

    def is_red(self, name: str) -> bool:
        return RED in ElementTree.tostring(self.groups[name], encoding="unicode")


@pytest.fixture
def drawn(tmp_path: Path) -> Any:
    def draw(execution: Execution, **options: Any) -> Picture:
        path = tmp_path / "picture.svg"
        diagram.draw(execution, path, **options)
        return Picture(path)

    return draw


run = partial(run_command, "diagram")


def count(execution: Execution, kind: str, *whats: str) -> int:
    return sum(event.kind == kind and (not whats or event.what in whats) for event in execution.events)


# ---- what is in a picture ----


def test_every_process_has_a_line_with_its_name_and_every_message_an_arrow(drawn: Any) -> None:
    execution = plays.perform(plays.PLAYS["figure-1"])
    picture = drawn(execution)
    assert len(picture.named("process-")) == 3
    assert all(picture.texts[name] == 1 for name in ("Alice", "Bob", "Carol"))
    assert len(picture.named("message-")) == count(execution, "receive") == 3
    assert picture.texts["m1"] == 2, "once where it is sent, once where it is delivered"


@pytest.mark.parametrize("order", ["none", "causal-matrix", "cykas", "sync", "sequencer", "token", "skeen", "bus1"])
def test_pictures_of_random_executions_show_every_packet_once(order: str, drawn: Any, seed: int) -> None:
    execution = plays.random_execution(order, 4, 6, seed)
    payloads = [kind for kind in orders.ORDERS[order].kinds if Stage(order, 1).brings_payload(kind)]
    controls = [kind for kind in orders.ORDERS[order].kinds if kind not in payloads]
    picture = drawn(execution)
    assert len(picture.named("message-")) == count(execution, "receive", *payloads)
    assert len(picture.named("control-")) == (count(execution, "receive", *controls) if controls else 0)
    assert len(picture.named("deliver-")) == count(execution, "deliver")
    assert not any(picture.is_red(name) for name in picture.named("message-"))


def test_control_packets_can_be_left_out(drawn: Any) -> None:
    execution = plays.perform(plays.PLAYS["figure-2-cykas"])
    whole, less = drawn(execution), drawn(execution, control=False)
    assert len(whole.named("control-ack-")) == 3
    assert len(whole.named("control-yct-")) == 1
    assert not less.named("control-")
    assert len(less.named("message-")) == len(whole.named("message-")) == 3
    assert "yct" in whole.texts
    assert "yct" not in less.texts


def test_secret_mode_a_job_and_a_message_that_waits_are_marked(drawn: Any) -> None:
    picture = drawn(plays.perform(plays.PLAYS["figure-2-cykas"]))
    assert picture.named("secret-") == ["secret-1"], "Bob transitions to secret mode"
    assert picture.named("job-") == ["job-m2-1"]
    assert picture.named("waiting-") == ["waiting-m3-1"]
    assert not picture.named("held-")


def test_what_a_receiver_holds_back_is_marked_from_its_arrival_to_its_delivery(drawn: Any) -> None:
    picture = drawn(plays.perform(plays.PLAYS["figure-1-receiver"]))
    assert picture.named("held-") == ["held-m3-2"]
    assert not picture.named("waiting-")
    assert drawn(plays.perform(plays.PLAYS["figure-1-sender"])).named("waiting-") == ["waiting-m2-0"]


@pytest.mark.parametrize(("order", "is_promised"), [("skeen:on_crash=go-on", True), ("skeen", False)])
def test_a_process_that_dies_is_marked_and_judged_as_the_simulation_does(
    order: str, is_promised: bool, tmp_path: Path
) -> None:
    path, picture = tmp_path / "run.json", tmp_path / "picture.svg"
    words = f"sim run --order {order} --processes 3 --messages 2 --fan-out 2 --jobs 1 --crashes 0@3+2 --record {path}"
    assert run_command(*words.split()).exit_code == 0
    result = run_command("diagram", path, "-o", picture, "--json")
    lost = json.loads(result.stdout)["verdicts"]["lost"]
    assert (result.exit_code, lost["claimed"], lost["ok"]) == (0, is_promised, is_promised)
    assert Picture(picture).named("die-") == ["die-0"]


def test_a_violation_is_red_with_its_two_messages_and_told_in_words(drawn: Any) -> None:
    execution = plays.perform(plays.PLAYS["figure-3"])
    verdicts = execution.judge(["causal"])
    picture = drawn(execution, violations=verdicts)
    packets = {event.packet: execution.label(event.message) for event in execution.events if event.kind == "receive"}
    red = [packets[int(name.rsplit("-", 1)[1])] for name in picture.named("message-") if picture.is_red(name)]
    assert sorted(red) == ["m1", "m3"]
    assert sorted(picture.named("wrong-")) == ["wrong-deliver-m1-0", "wrong-deliver-m3-0"]
    told = " ".join(text.strip() for text in picture.texts)
    assert "Alice delivered m3 before m1" in told
    good = drawn(execution, violations=execution.judge(["lost"]))
    assert not any(good.is_red(name) for name in good.named("message-"))


def test_receivers_that_disagree_are_both_marked(drawn: Any) -> None:
    execution = plays.perform(plays.PLAYS["conflict"])
    picture = drawn(execution, violations=execution.judge(["consistent"]))
    assert len(picture.named("wrong-")) == 4


def test_all_that_is_stuck_is_red(drawn: Any) -> None:
    execution = plays.perform(plays.PLAYS["deadlock"])
    picture = drawn(execution, violations=execution.judge(["lost"]))
    assert len(picture.named("message-")) == 2
    assert all(picture.is_red(name) for name in picture.named("message-") + picture.named("held-"))
    assert any(text.endswith("(one of 2)") for text in picture.texts)
    stage = Stage("sync-naive", ["Alice", "Bob", "Carol"])
    for who, label, to in (("Alice", "m1", "Bob"), ("Bob", "m2", "Alice"), ("Alice", "never", "Carol")):
        stage.submit(who, label, to)
    stage.run(1)
    stage.submit("Carol", "gone", "Carol")
    picture = drawn(stage.execution(), violations=stage.execution().judge(["lost"]))
    assert picture.is_red("sent-m1-0")
    assert picture.is_red("sent-m2-1")
    assert picture.is_red("waiting-never-0"), "what was never sent is stuck, too"
    assert not picture.is_red("deliver-gone-2")


def test_the_end_of_a_node_is_drawn_and_what_meets_it(drawn: Any) -> None:
    picture = drawn(plays.perform(plays.PLAYS["node-end"]))
    assert sorted(picture.named("end-")) == ["end-deliver-end-0", "end-deliver-end-1", "end-deliver-end-2"]
    assert {"a node ends", "passed over", "its handle is dead"} <= {text.strip() for text in picture.texts}
    plain = drawn(plays.perform(plays.PLAYS["node-end"], "bus1"))
    assert not plain.named("end-")
    assert not {"a node ends", "passed over", "its handle is dead"} & {text.strip() for text in plain.texts}


def test_a_crown_is_drawn_as_a_closed_circle(drawn: Any) -> None:
    execution = plays.perform(plays.PLAYS["crossing"])
    picture = drawn(execution, violations=execution.judge(["synchronous"]))
    assert sorted(picture.named("crown-")) == ["crown-0", "crown-1"]
    assert sorted(picture.named("wrong-")) == ["wrong-deliver-a-1", "wrong-deliver-b-0"]
    assert all(picture.is_red(name) for name in picture.named("message-") + picture.named("crown-"))


def test_a_message_to_oneself_is_an_arc_and_needs_no_packet(drawn: Any) -> None:
    stage = Stage("none", 2)
    stage.submit(0, "note", [0, 1])
    stage.run(1)
    picture = drawn(stage.execution())
    assert picture.named("self-") == ["self-note-0"]
    assert len(picture.named("message-")) == 1
    assert picture.texts["note"] == 3


def test_packets_in_flight_and_dropped_messages_are_shown(drawn: Any) -> None:
    stage = Stage("fifo:on_gap=skip", 2)
    for label in ("m1", "m2", "m3"):
        stage.submit(0, label, 1)
    stage.receive(stage.find(label="m2").packet)
    stage.tick(1)
    stage.tick(1)
    stage.receive(stage.find(label="m1").packet)
    picture = drawn(stage.execution())
    assert picture.named("drop-") == ["drop-m1-1"]
    assert picture.texts["(m1)"] == 1
    assert len(picture.named("unreceived-")) == 1, "m3 has not arrived"
    assert len(picture.named("message-")) == 2


def test_a_recorded_history_can_be_drawn(drawn: Any) -> None:
    history = History(["ann", "bob", "cleo"])
    history.send("ann", 1, ["bob", "cleo"])
    history.deliver("bob", 1)
    history.send("bob", 2, ["cleo"])
    history.deliver("cleo", 2)
    history.deliver("cleo", 1)
    execution = Execution.from_history(history)
    picture = drawn(execution, violations=execution.judge(["causal"]))
    assert len(picture.named("message-")) == 3
    assert len(picture.named("wrong-")) == 2


def test_an_execution_of_nothing_can_be_drawn(drawn: Any) -> None:
    picture = drawn(Execution("none", ("p0", "p1"), ()), title="nothing")
    assert len(picture.named("process-")) == 2
    assert picture.texts["nothing"] == 1


# ---- readable ----


def test_labels_of_a_line_do_not_overlap_in_a_picture_of_8_processes_and_60_messages(seed: int) -> None:
    chance = random.Random(seed)
    stage = Stage("cykas", 8)
    for _ in range(60):
        origin, to = chance.sample(range(8), 2)
        stage.submit(origin, "", to)
        stage.run(chance.getrandbits(60), limit=chance.randrange(4))
    stage.run(seed)

    def width(text: str, size: float) -> float:
        return len(text) * 0.7 * size / 72

    layout = layouts.Layout(stage.execution(), width, control=True, proportional=False)
    assert len({label.message for label in layout.labels}) == 60
    lines: dict[tuple[int, bool, float], float] = {}
    for label in sorted(layout.labels, key=lambda label: label.x):
        left, right = layout.reach(label.is_below, label.text)
        line = label.process, label.is_below, label.distance
        assert label.x - left >= lines.get(line, -1.0), f"{label} overlaps with the one before"
        lines[line] = label.x + right


def test_an_arrow_never_goes_back_in_time(seed: int) -> None:
    execution = plays.random_execution("lamport", 5, 30, seed)
    for proportional in (False, True):
        layout = layouts.Layout(execution, lambda text, size: 0.2, control=False, proportional=proportional)
        sent = {event.packet: layout.x[i] for i, event in enumerate(execution.events) if event.kind == "send"}
        for index, event in enumerate(execution.events):
            if event.kind == "receive":
                assert layout.x[index] >= sent[event.packet]
        by_process: dict[int, float] = {}
        for index, event in enumerate(execution.events):
            assert layout.x[index] >= by_process.get(event.process, 0.0)
            by_process[event.process] = layout.x[index]


def test_with_time_distances_are_times() -> None:
    execution = plays.perform(plays.PLAYS["figure-2-mfss"])
    layout = layouts.Layout(execution, lambda text, size: 0.2, control=True, proportional=True)
    first, last = 0, len(execution.events) - 1
    scale = (layout.x[last] - layout.x[first]) / (execution.events[last].time_s - execution.events[first].time_s)
    for index, event in enumerate(execution.events):
        expected = layout.x[first] + (event.time_s - execution.events[first].time_s) * scale
        assert layout.x[index] == pytest.approx(expected)


def test_the_same_execution_gives_the_same_file(tmp_path: Path) -> None:
    execution = plays.perform(plays.PLAYS["figure-3"])
    for name in ("one.svg", "two.svg"):
        diagram.draw(execution, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


# ---- the command ----


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full here")
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_that_finds_no_room_is_named(tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"full.{suffix}"
    picture.symlink_to("/dev/full")
    found = run_command("diagram", "query-reply", "-o", picture)
    assert (found.exit_code, found.stderr) == (1, f"busq: {picture}: No space left on device\n")


def test_the_figures_of_the_paper_are_drawn_by_name_and_judged(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    found = run("figure-1", "-o", str(path), "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 0, "none promises nothing that is broken"
    assert not told["verdicts"]["causal"]["ok"]
    assert not told["verdicts"]["causal"]["claimed"]
    assert told["messages"] == told["deliveries"] == 3
    assert found.stderr == f"wrote {path}\n"
    assert len(Picture(path).named("wrong-")) == 2


@pytest.mark.parametrize(
    "name", [name for name, play in plays.PLAYS.items() if not orders.parse(play.order)[0].laboratory]
)
def test_no_play_breaks_what_its_order_promises(name: str) -> None:
    found = run(name)
    assert found.exit_code == 0
    assert plays.PLAYS[name].title.split(":")[0] in found.stdout.replace("\n", " ")


@pytest.mark.parametrize("name", ["figure-1", "figure-3", "garg-12.1", "query-reply", "conflict"])
@pytest.mark.parametrize("order", [name for name, order in orders.ORDERS.items() if not order.laboratory])
def test_every_order_keeps_its_promises_in_every_play(name: str, order: str) -> None:
    verdicts = plays.perform(plays.PLAYS[name], order).judge()
    assert [claim for claim in orders.ORDERS[order].claims if claim in verdicts and not verdicts[claim].ok] == []


def test_a_promise_that_is_broken_is_exit_code_1() -> None:
    deadlock = run("deadlock", "--json")  # "The two processes are deadlocked": the post on sender-side enforcement
    assert deadlock.exit_code == 1
    assert json.loads(deadlock.stdout)["verdicts"]["lost"]["count"] == 2
    telling = run("figure-3", "--json")  # "This violates causal delivery": the paper, 2.3
    assert telling.exit_code == 1
    assert json.loads(telling.stdout)["verdicts"]["causal"]["count"] == 1


def test_what_is_not_promised_is_marked_where_a_play_shows_it_and_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    for arguments, is_marked in (
        (["crossing"], True),
        (["crossing", "--order", "sync"], False),
        (["--order", "causal-matrix", "--seed", "1"], False),
        (["--order", "causal-matrix", "--seed", "1", "--mark", "synchronous"], True),
        (["crossing", "--mark", "causal"], False),
    ):
        assert run(*arguments, "-o", str(path)).exit_code == 0
        picture = Picture(path)
        assert bool(picture.named("crown-")) == is_marked, arguments
        assert any("does not promise it" in text for text in picture.texts) == is_marked


@pytest.mark.parametrize(
    ("arguments", "strongest"),
    [
        (["garg-12.1"], ["fifo"]),
        (["query-reply", "--order", "none"], ["total", "c2"]),
        (["crossing"], ["causal"]),
        (["conflict"], ["causal"]),
        (["conflict", "--order", "sequencer"], ["synchronous"]),
        (["figure-2-mfss"], ["synchronous"]),
        (["--order", "sequencer", "--seed", "1", "--processes", "3", "--messages", "4"], ["causal total"]),
    ],
)
def test_an_execution_is_placed_in_the_hierarchy_of_problems_12_2_and_12_3(
    arguments: list[str], strongest: list[str]
) -> None:
    classes = json.loads(run(*arguments, "--classes", "--json").stdout)["classes"]
    assert [name for name, row in classes.items() if row["strongest"]] == strongest
    assert all(row["ok"] or row["text"] for row in classes.values())
    printed = run(*arguments, "--classes").stdout
    assert "the strongest that it belongs to" in " ".join(printed.split())
    assert "Classes" not in run(*arguments).stdout


def test_a_play_can_be_performed_under_another_order(tmp_path: Path) -> None:
    told = json.loads(run("figure-1", "--order", "mfss", "--json").stdout)
    assert told["order"] == "mfss"
    assert told["verdicts"]["causal"]["ok"]


def test_a_random_execution_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.json", "two.json", "other.json")]
    for path, seed in zip(paths, ("5", "5", "6"), strict=True):
        found = run("--order", "skeen", "--processes", "3", "--messages", "5", "--seed", seed, "--keep", str(path))
        assert found.exit_code == 0
    one, two, other = (path.read_text() for path in paths)
    assert one == two
    assert one != other


def test_an_execution_in_json_and_a_scenario_are_drawn_like_a_play(tmp_path: Path) -> None:
    kept, scenario, path = tmp_path / "kept.json", tmp_path / "figure.txt", tmp_path / "picture.svg"
    assert run("figure-1", "--keep", str(kept)).exit_code == 0
    scenario.write_text(
        "# Overtaking\norder none: alice bob carol\n> alice sends m1 to carol\n> alice sends m2 to bob\n"
        "> bob receives data m2\n> bob sends m3 to carol\n> carol receives data m3\n> everything arrives\n"
    )
    for source in (kept, scenario):
        found = run(str(source), "-o", str(path), "--json")
        assert found.exit_code == 0
        assert "before m1" in json.loads(found.stdout)["verdicts"]["causal"]["text"]
        assert len(Picture(path).named("message-")) == 3


def test_png_and_pdf_are_written_too(tmp_path: Path) -> None:
    for suffix, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        path = tmp_path / f"picture.{suffix}"
        assert run("figure-1", "-o", str(path)).exit_code == 0
        assert path.read_bytes().startswith(magic)


def test_all_plays_are_listed() -> None:
    listed = run("--list")
    assert all(name in listed.stdout for name in plays.PLAYS)
    assert [play["name"] for play in json.loads(run("--list", "--json").stdout)["plays"]] == list(plays.PLAYS)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], r"expected SOURCE .* or --order"),
        (["figure-9"], r"figure-9: no such play or file"),
        (["figure-1", "--order", "sorted"], r"sorted"),
        (["--order", "sorted"], r"sorted"),
        (["figure-1", "--seed", "3"], r"--seed is for random executions"),
        (["figure-1", "-o", "picture.bmp"], r"expected a name that ends in"),
        (["figure-1", "-o", "/nowhere/picture.svg"], r"no directory"),
        (["--order", "none", "--processes", "1"], r"processes"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_line(arguments: list[str], complaint: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert re.search(complaint, found.stderr)
    assert found.stderr.count("\n") == 1
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", "not an execution"),
        ('{"format": "busq execution 1"}', "not an execution"),
        ("order none: a b\n> a sings\n", "line 2"),
        ("hello", "expected"),
    ],
)
def test_a_file_that_is_no_execution_is_refused_in_a_line(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    found = run(str(path))
    assert found.exit_code == 2
    assert complaint in found.stderr
    assert found.stderr.count("\n") == 1


def test_an_execution_that_has_happened_has_its_own_order(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    run("figure-1", "--keep", str(path))
    found = run(str(path), "--order", "mfss")
    assert found.exit_code == 2
    assert "happened under its own order" in found.stderr


def test_a_prefix_is_judged_and_drawn_as_a_prefix(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scenario = tmp_path / "prefix.txt"
    scenario.write_text(
        "# the second one overtakes\norder none: p q\n> p sends m1 to q\n> p sends m2 to q\n> q receives m1\n"
    )
    kept, picture = tmp_path / "kept.json", tmp_path / "prefix.svg"
    found = run(str(scenario), "-o", str(picture), "--keep", str(kept), "--json")
    assert found.exit_code == 0
    verdict = json.loads(found.stdout)["verdicts"]["lost"]
    assert (verdict["ok"], verdict["count"]) == (True, 0)
    assert "not received yet" in picture.read_text()
    execution = Execution.from_json(kept.read_text())
    assert not execution.finished
    assert execution.judge()["lost"].text == "1 copy is not delivered yet"


# ---- words ----

DRAWN_ORDERS = ("fifo", "cykas", "skeen", "lamport", "bus1", "token")
LONG = "order-2026-11-22/customer-{:03}/äußerst-lange-Bezeichnung"
WIDE = "注文番号{:03}の配送状況を確認してください、お願いします"
LINES = "two\nlines and $a price$ of {} and so on and so forth"


def misplaced(execution: Execution, path: Path, **options: Any) -> list[str]:
    """Words in a picture that stand on others or are cut by its edge, as the renderer measures them, in pixels."""
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    text = pytest.importorskip("matplotlib.text")
    figures = pytest.importorskip("matplotlib.figure")
    keep, found = figures.Figure.savefig, []

    def save(figure: Any, path: Any, **options: Any) -> None:
        keep(figure, path, **options)
        renderer = agg.FigureCanvasAgg(figure).get_renderer()
        paper = figure.bbox
        words = [word for word in figure.findobj(text.Text) if word.get_text()]
        boxes = [(word.get_text(), word.get_window_extent(renderer)) for word in words]
        assert len(boxes) >= len(execution.processes)
        for place, (one, box) in enumerate(boxes):
            if box.x0 < -1 or box.y0 < -1 or box.x1 > paper.x1 + 1 or box.y1 > paper.y1 + 1:
                found.append(f"{one} is cut by the edge")
            for other, behind in boxes[:place]:
                width = min(box.x1, behind.x1) - max(box.x0, behind.x0)
                height = min(box.y1, behind.y1) - max(box.y0, behind.y0)
                if width > 1 and height > 1:
                    found.append(f"{one} stands on {other}, {width:.0f} by {height:.0f}")

    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # no font has all characters; their room is kept
        patched.setattr(figures.Figure, "savefig", save)
        diagram.draw(execution, path, **options)
    return found


def large(order: str, chance: random.Random) -> Execution:
    return plays.random_execution(order, chance.choice((5, 6)), chance.randrange(10, 31), chance.getrandbits(32))


def in_bursts(execution: Execution, chance: random.Random) -> Execution:
    """The same events at other times: many nearly at once, then a pause."""
    now: dict[float, float] = {}
    for time_s in sorted({event.time_s for event in execution.events}):
        now[time_s] = max(now.values(), default=0.0) + chance.choice((1e-6, 1e-6, 1e-6, 0.001, 0.05))
    events = tuple(replace(event, time_s=now[event.time_s]) for event in execution.events)
    return replace(execution, events=events)


def named(execution: Execution, name: str) -> Execution:
    """The same execution with long names, of messages and processes, that differ in the middle."""
    messages = sorted({event.message for event in execution.events if event.kind == "submit"})
    labels = {message: name.format(number) for number, message in enumerate(messages)}
    processes = tuple("replica " + name.format(process) for process in range(len(execution.processes)))
    return replace(execution, processes=processes, labels=labels)


@pytest.mark.parametrize("proportional", [False, True], ids=["compact", "time"])
@pytest.mark.parametrize(
    "order", [pytest.param(name, marks=[] if name in {"bus1", "cykas"} else pytest.mark.long) for name in DRAWN_ORDERS]
)
def test_no_word_stands_on_another(order: str, proportional: bool, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for execution in (plays.random_execution(order, 4, 8, seed), in_bursts(large(order, chance), chance)):
        assert misplaced(execution, tmp_path / "random.svg", proportional=proportional) == []


@pytest.mark.parametrize("proportional", [False, True], ids=["compact", "time"])
@pytest.mark.parametrize("name", [LONG, WIDE, LINES], ids=["long", "wide", "lines"])
@pytest.mark.parametrize("order", [pytest.param("none", marks=pytest.mark.long), "cykas"])
def test_no_long_name_stands_on_another(order: str, name: str, proportional: bool, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    execution = named(in_bursts(plays.random_execution(order, 5, 10, seed), chance), name)
    options: dict[str, Any] = {"violations": execution.judge(), "title": name * 4, "proportional": proportional}
    assert misplaced(execution, tmp_path / "random.svg", **options) == []


@pytest.mark.parametrize("proportional", [False, True], ids=["compact", "time"])
def test_no_sentence_about_a_fault_stands_on_another_word(proportional: bool, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    faults: dict[str, Any] = {}
    while sum(not verdict.ok for verdict in faults.values()) < 2:
        execution = in_bursts(large("none", chance), chance)
        faults = execution.judge()
    options: dict[str, Any] = {"violations": faults, "proportional": proportional}
    assert misplaced(execution, tmp_path / "faults.svg", **options) == []


def test_names_of_events_at_one_time_stand_in_rows(tmp_path: Path) -> None:
    messages = [message_name(0, number) for number in range(1, 13)]
    events = [Event(1 + number * 1e-9, 0, kind, m) for number, m in enumerate(messages) for kind in ("submit", "sent")]
    events += [Event(2 + number * 1e-9, 1, "deliver", m) for number, m in enumerate(messages)]
    execution = Execution("none", ("p", "q"), tuple(events), {}, dict.fromkeys(messages, (1,)))
    path = tmp_path / "rows.svg"
    assert misplaced(execution, path, proportional=True) == []
    assert all(Picture(path).texts[execution.label(message)] == 2 for message in messages)


@pytest.mark.parametrize("name", plays.PLAYS)
def test_no_word_of_a_play_stands_on_another(name: str, tmp_path: Path) -> None:
    play = plays.PLAYS[name]
    execution = plays.perform(play)
    for proportional in (False, True):
        options: dict[str, Any] = {"violations": execution.judge(), "title": play.title, "proportional": proportional}
        assert misplaced(execution, tmp_path / "play.svg", **options) == []


@pytest.mark.filterwarnings("ignore:Glyph .* missing")
@pytest.mark.parametrize("name", [LONG, WIDE], ids=["long", "wide"])
def test_an_abbreviated_name_is_told_whole_below(name: str, drawn: Any) -> None:
    execution = named(plays.perform(plays.PLAYS["figure-1"]), name)
    texts = drawn(execution).texts
    for whole in (*execution.processes, *execution.labels.values()):
        told = [text for text in texts if text.endswith(f": {whole}")]
        assert len(told) == 1
        brief = told[0].removesuffix(f": {whole}")
        assert "…" in brief
        assert texts[brief] == (1 if whole in execution.processes else 2)


@pytest.mark.parametrize(
    "names",
    [
        [f"the same begin of every name {number}" for number in range(30)],
        [f"{number} the same end of every name, always" for number in range(30)],
        [f"the same begin of a name {number} and the same end of it" for number in range(30)],
        ["x" * 100 + str(number % 6) + "x" * 50 + str(number // 6) + "x" * 100 for number in range(30)],
    ],
)
def test_names_that_are_abbreviated_fit_and_stay_different(names: list[str]) -> None:
    briefs = abbreviate([*names, "short"], 25, len)
    assert list(briefs) == [*names, "short"]
    assert briefs["short"] == "short"
    assert len(set(briefs.values())) == 31
    assert all(len(brief) <= 25 for brief in briefs.values())
