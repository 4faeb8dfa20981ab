# SPDX-License-Identifier: Apache-2.0
"""What the page shows of a scenario: the diagram, the processes, the properties, and what can happen next."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from busq.lab.diagram import draw
from busq.lab.diagram.save import widths
from busq.lab.observers import PROPERTIES, Verdict
from busq.lab.scenario import Player, play, remains
from busq.lab.stage import Stage
from busq.lab.stage_page.choices import Limits, choices, shortest_way
from busq.orders import parse

__all__ = ["Conductor"]

COMMANDS_MAX = 1_000


class Conductor:
    """The stage of a page: an order, processes and limits. The page keeps what has happened, a list of commands.

    Errors: ValueError for an order, processes or limits that can't be; ImportError without matplotlib.

    >>> conductor = Conductor("fifo", ["ann", "bob"])
    >>> state = conductor.state(["ann sends m1 to bob"])
    >>> state["choices"][0]["command"], state["processes"][0]["clock"]
    ('bob receives data m1 from ann', [1, 0])
    """

    def __init__(self, order: str, processes: Sequence[str], limits: Limits | None = None) -> None:
        self.order, self.processes, self.limits = order, tuple(processes), limits or Limits()
        self._stage()  # which raises what is wrong with it
        widths()  # the same, where nothing can be drawn
        self._claims = parse(order)[0].claims

    def _stage(self) -> Stage:
        return Stage(self.order, self.processes)

    def head(self) -> str:
        """The first line of the scenario."""
        return f"order {self.order}: {' '.join(self.processes)}"

    def state(self, commands: Sequence[str]) -> dict[str, Any]:
        """Return all that the page shows behind these commands.

        Raises ValueError or LookupError, with the number of the command, for one that can't be done.
        """
        if len(commands) > COMMANDS_MAX:
            raise ValueError(f"{len(commands):,} steps: expected at most {COMMANDS_MAX:,}")
        stage = self._stage()
        player = Player(stage)
        steps = []
        for number, command in enumerate(commands, 1):
            try:
                steps.append({"command": command, "caused": player.play(command)})
            except (ValueError, LookupError) as error:
                raise ValueError(f"step {number}, {command!r}: {error}") from error
        verdicts = stage.judge(PROPERTIES)
        return {
            "order": self.order,
            "steps": steps,
            "failure": str(player.failure) if player.failure is not None else "",
            "remains": list(remains(stage)),
            "choices": [{"command": one.command, "kind": one.kind} for one in self._choices(stage, player)],
            "processes": [self._process(stage, place, clock) for place, clock in enumerate(clocks(stage))],
            "properties": [
                {
                    "name": name,
                    "ok": verdict.ok,
                    "claimed": name in self._claims,
                    "text": "" if verdict.ok else verdict.text,
                }
                for name, verdict in verdicts.items()
            ],
            "svg": picture(stage, self._marked(verdicts)),
        }

    def _marked(self, verdicts: dict[str, Verdict]) -> dict[str, Verdict]:
        """Return the one that the picture marks: the first broken one that the order promises, or else the first."""
        broken = [name for name, verdict in verdicts.items() if not verdict.ok]
        broken.sort(key=lambda name: name not in self._claims)
        return {name: verdicts[name] for name in broken[:1]}

    def _choices(self, stage: Stage, player: Player) -> list[Any]:
        return [] if player.failure is not None else choices(stage, self.limits)

    def _process(self, stage: Stage, place: int, clock: list[int]) -> dict[str, Any]:
        name = stage.processes[place]
        gauge = stage.gauge(name)
        words = {
            "waiting": "{} of its own waiting",
            "outside": "{} not taken so far",
            "held": "{} held back",
            "alarms": "{} set",
        }
        state = [text.format(gauge[key]) for key, text in words.items() if gauge[key]]
        state += ["secret mode"] if gauge["secret"] else []
        is_dead = name in stage.dead
        return {
            "name": name,
            "clock": clock,
            "state": "dead" if is_dead else ", ".join(state) or "idle",
            "dead": is_dead,
        }

    def find(self, commands: Sequence[str], broken: str, goes_on: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        """Return the shortest way on from here to where that property is broken, or that there is none.

        The search is given up where `goes_on()`, called before each state, is false.
        """
        if broken not in PROPERTIES:
            raise ValueError(f"{broken!r} is no property: expected one of {', '.join(PROPERTIES)}")
        way = shortest_way(self._stage, commands, self.limits, broken, goes_on=goes_on)
        if way.commands is None:
            limits = f"{self.limits.messages} messages each"
            whole, partly = "Nothing from here breaks {} with {}", "No way to break {} was found with {}"
            text = f"{(whole if way.is_whole else partly).format(broken, limits)} ({way.states:,} states)."
        else:
            text = f"{broken} breaks in {len(way.commands)} steps from here ({way.states:,} states)."
        return {"commands": list(way.commands or ()), "found": way.commands is not None, "text": text}

    def scenario(self, commands: Sequence[str]) -> str:
        """Return the text of the scenario, with what each command caused."""
        return play("\n".join([self.head(), *(f"> {command}" for command in commands)])).text


def clocks(stage: Stage) -> list[list[int]]:
    """Return the vector clock of each process: how many sends and deliveries of each are in its past.

    >>> stage = Stage("none", 2)
    >>> _ = stage.submit(0, "hello", 1), stage.run()
    >>> clocks(stage)
    [[1, 0], [1, 1]]
    """
    n = len(stage.processes)
    now = [[0] * n for _ in range(n)]
    at_send: dict[int, list[int]] = {}
    execution = stage.execution()
    sent: set[int] = set()
    for event in execution.events:
        mine = now[event.process]
        if event.kind == "deliver":
            mine[:] = [max(pair) for pair in zip(mine, at_send.get(event.message, mine), strict=True)]
        multicast = execution.multicasts.get(event.message, event.message)
        if event.kind == "deliver" or (event.kind == "sent" and multicast not in sent):
            mine[event.process] += 1
        if event.kind == "sent":  # of a multicast in copies all have the clock of the first
            sent.add(multicast)
            at_send[event.message] = list(mine)
    return now


def picture(stage: Stage, broken: dict[str, Verdict]) -> str:
    """Return the space-time diagram as an SVG element; nothing before anything has happened."""
    execution = stage.execution()
    if not execution.events:
        return ""
    with tempfile.TemporaryDirectory(prefix="busq-stage-") as folder:
        path = Path(folder) / "stage.svg"
        draw(execution, path, violations=broken)
        text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :]
