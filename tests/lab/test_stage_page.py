# SPDX-License-Identifier: Apache-2.0
"""The page of a stage: what can happen, what is shown, the shortest way to a violation, and its server."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest
from conftest import PATIENCE_S, wait_until

from busq import scenario
from busq.lab.scenario import Player
from busq.lab.stage_page.choices import Limits, choices, shortest_way
from busq.lab.stage_page.state import Conductor, clocks
from busq.orders import ORDERS
from busq.stage import Stage, show

NAMES = ["ann", "bob", "cid"]
GO_ON = [f"{name}:on_crash=go-on" for name, order in ORDERS.items() if "on_crash=go-on" in order.options]


def test_the_choices_are_the_network_s_and_the_applications() -> None:
    stage = Stage("fifo", NAMES)
    player = Player(stage)
    player.play("ann sends m1 to bob")
    player.play("ann sends m2 to bob")
    assert [one.command for one in choices(stage, Limits(messages=1))] == [
        "bob receives data m1 from ann",
        "bob receives data m2 from ann",
        *(f"bob sends m3 to {to}" for to in ("ann", "cid", "everybody")),
        *(f"cid sends m3 to {to}" for to in ("ann", "bob", "everybody")),
    ]


def test_packets_that_are_alike_are_told_apart() -> None:
    stage = Stage("none", NAMES)
    stage.submit("ann", "m1", "bob")
    for _ in range(3):
        stage.double(stage.find().packet)
    arrivals = [one for one in choices(stage, Limits(messages=0)) if one.kind == "arrival"]
    assert [one.command for one in arrivals] == [
        "bob receives data m1 from ann",
        *(f"bob receives the {place} data m1 from ann" for place in ("2nd", "3rd", "4th")),
    ]
    Player(stage).play(arrivals[2].command)
    assert arrivals[2].call[1] not in [packet.packet for packet in stage.packets]


def test_only_the_oldest_of_a_channel_may_arrive_where_channels_keep_the_order() -> None:
    stage = Stage("sequencer:on_crash=go-on", NAMES)
    stage.submit("ann", "m1", ["bob", "cid"])
    stage.submit("ann", "m2", ["bob", "cid"])
    arrivals = [one.command for one in choices(stage, Limits(messages=0))]
    assert arrivals == ["bob receives data m1 from ann", "cid receives data m1 from ann"]


@pytest.mark.parametrize("order", [*ORDERS, *GO_ON])
def test_a_command_does_what_its_choice_does(order: str, seed: int) -> None:
    """Executions of 40 random steps, by commands and by calls: all can be played, and all events are the same."""
    chance = random.Random(f"{seed} {order}")
    by_command, by_call = Stage(order, NAMES), Stage(order, NAMES)
    limits, player = Limits(messages=3, crashes=1), Player(by_command)
    for _ in range(40):
        offered = choices(by_command, limits)
        assert offered == choices(by_call, limits)
        if not offered:
            break
        chosen = chance.choice(offered)
        player.play(chosen.command)
        chosen.do(by_call)
        assert by_command.execution().events == by_call.execution().events


@pytest.mark.parametrize(
    ("order", "broken", "steps"),
    [
        ("none", "fifo", 4),
        ("fifo", "causal", 5),
        ("fifo", "synchronous", 4),
        ("none", "total", 9),
        ("none", "lost", None),
    ],
)
def test_the_way_to_a_violation_is_the_shortest(order: str, broken: str, steps: int | None) -> None:
    """In steps of the stage: sends and arrivals. `none` loses nothing, whatever arrives."""
    names = NAMES if broken in ("causal", "total") else NAMES[:2]
    way = shortest_way(
        lambda: Stage(order, names), [], Limits(messages=1 if broken in ("lost", "total") else 2), broken
    )
    if steps is None:
        assert way.commands is None
        assert way.is_whole
        return
    assert way.commands is not None
    assert len(way.commands) == steps
    played = scenario.play("\n".join([f"order {order}: {' '.join(names)}", *(f"> {one}" for one in way.commands)]))
    assert not played.execution.judge([broken])[broken].ok


def test_a_way_goes_on_from_where_the_stage_is() -> None:
    before = ["ann sends m1 to bob", "ann sends m2 to bob", "bob receives data m2 from ann"]
    way = shortest_way(lambda: Stage("none", NAMES[:2]), before, Limits(messages=2), "fifo")
    assert way.commands == ("bob receives data m1 from ann",)


def test_a_search_that_is_cut_short_says_so() -> None:
    way = shortest_way(lambda: Stage("fifo", NAMES), [], Limits(), "fifo", 50)
    assert (way.commands, way.states, way.is_whole) == (None, 50, False)


def test_a_search_that_is_given_up_has_looked_at_no_more_states() -> None:
    looks = iter([True] * 10 + [False])
    way = shortest_way(lambda: Stage("fifo", NAMES), [], Limits(), "fifo", goes_on=lambda: next(looks))
    assert (way.commands, way.is_whole) == (None, False)
    assert way.states <= 10


def test_the_clock_of_a_multicast_is_that_of_one_send() -> None:
    stage = Stage("fifo", NAMES)  # which sends a copy to each
    stage.submit("ann", "m1", ["bob", "cid"])
    assert clocks(stage) == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    stage.run()
    assert clocks(stage) == [[1, 0, 0], [1, 1, 0], [1, 0, 1]]


# ---- what is shown ----


def test_a_state_is_all_that_the_page_shows() -> None:
    pytest.importorskip("matplotlib")
    steps = ["ann sends m1 to cid", "ann sends m2 to bob", "bob receives data m2 from ann", "bob sends m3 to cid"]
    state = Conductor("fifo", NAMES).state([*steps, "cid receives data m3 from bob", "cid receives data m1 from ann"])
    assert state["steps"][4] == {"command": "cid receives data m3 from bob", "caused": ["cid delivers m3"]}
    assert {one["name"]: (one["ok"], one["claimed"]) for one in state["properties"]}["causal"] == (False, False)
    assert [one["clock"] for one in state["processes"]] == [[2, 0, 0], [2, 2, 0], [2, 2, 2]]
    assert state["svg"].startswith("<svg")
    assert "causal: cid delivered m3 before m1" in " ".join(state["svg"].split())


def test_wrong_commands_are_named() -> None:
    conductor = Conductor("fifo", NAMES)
    with pytest.raises(ValueError, match=r"step 2, 'bob receives data m7': 'm7' is neither"):
        conductor.state(["ann sends m1 to bob", "bob receives data m7"])
    with pytest.raises(ValueError, match="expected one of lost"):
        conductor.find([], "nonsense")
    with pytest.raises(ValueError, match="at most 1,000"):
        conductor.state(["ann sends m1 to bob"] * 1001)


# ---- the server ----


def ask(page: Any, path: str, body: str | None = None, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE_S)
    headers = {"Host": host} if host else {}
    connection.request("POST" if body is not None else "GET", path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_server_answers_its_own_page_alone() -> None:
    with show("none", NAMES) as page:
        path = page.url.removeprefix(f"http://127.0.0.1:{page.port}")
        assert ask(page, path)[0] == 200
        assert "order none: ann bob cid" in ask(page, path)[1]
        assert ask(page, f"{path}page.js")[0] == 200
        assert ask(page, "/")[0] == ask(page, "/x/")[0] == ask(page, f"{path}../state.py")[0] == 404
        assert ask(page, path, host=f"evil.example:{page.port}")[0] == 404
        assert ask(page, f"{path}scenario", '{"commands": ["ann sends m1 to bob"]}')[0] == 200
        assert ask(page, f"{path}scenario", '{"commands": ["ann sends m1 to bob"]}', host="evil.example")[0] == 404
        for wrong in ("", "[]", "{", '{"commands": 3}', '{"commands": ["nonsense"]}'):
            status, text = ask(page, f"{path}scenario", wrong)
            assert (status, list(json.loads(text))) == (400, ["error"])
        assert f'src="{page.url}"' in page._repr_html_()
        port = page.port
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", port)) != 0


def test_a_search_ends_where_nobody_waits_for_it(capfd: pytest.CaptureFixture[str]) -> None:
    """The page that was closed in the middle of one hears nothing, and the server complains of nothing."""
    looked: list[bool] = []

    def find(commands: Any, broken: str, goes_on: Any) -> dict[str, Any]:
        looked.append(goes_on())
        while goes_on():
            time.sleep(0.001)
        looked.append(goes_on())
        return {}

    with show("none", NAMES) as page:
        page._conductor.find = find  # type: ignore[method-assign]
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE_S)
        path = page.url.removeprefix(f"http://127.0.0.1:{page.port}")
        connection.request("POST", f"{path}find", '{"commands": [], "property": "total"}')
        wait_until(lambda: looked == [True], what="the search")
        connection.close()
        wait_until(lambda: looked == [True, False], what="its end")
        assert ask(page, path)[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_it_listens_on_loopback_alone() -> None:
    with show("none", 2) as page:
        assert page._server.server_address[0] == "127.0.0.1"


def test_the_command_serves_when_it_is_asked_to_and_until_it_is_interrupted() -> None:
    command = [sys.executable, "-I", "-m", "busq", "stage", "fifo", "--processes", "ann,bob"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (refused.returncode, "expected --serve" in refused.stderr) == (2, True)
    with subprocess.Popen([*command, "--serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        line = process.stdout.readline()
        assert line.startswith("the stage of fifo is at http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)  # Ctrl-C is not heard where the tests run in the background
        _, complaints = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in complaints
    wrong = subprocess.run([*command[:5], "nonsense", "--serve"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert wrong.returncode == 2
    assert "nonsense" in wrong.stderr
