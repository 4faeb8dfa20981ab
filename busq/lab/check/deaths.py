# SPDX-License-Identifier: Apache-2.0
"""What deaths take from an execution that has come to its end: the definition taken at its word.

What the checker finds (csrc/check/crashes.c) is confirmed by it.
"""

from __future__ import annotations

from busq.lab.execution import Execution

__all__ = ["BY_DEATHS", "taken_by_deaths"]

BY_DEATHS = ("lost", "agreement", "uniform")


def taken_by_deaths(execution: Execution, name: str) -> str:
    """Return the first message that breaks this, in a sentence; or nothing.  O(events).

    >>> from busq.lab.stage import Stage
    >>> stage = Stage("none", ["ann", "bob", "carol"])
    >>> stage.doom("ann", 2)
    >>> _ = stage.submit("ann", "m1", ["bob", "carol"]), stage.run()
    >>> taken_by_deaths(stage.execution(), "agreement")
    'bob has delivered m1, and carol never delivers it'
    >>> taken_by_deaths(stage.execution(), "lost")
    ''
    """
    dead = {event.process for event in execution.events if event.kind == "die"}
    sent = [event.message for event in execution.events if event.kind == "sent"]
    for message in sent:
        has_it = [event.process for event in execution.events if event.kind == "deliver" and event.message == message]
        sender = message >> 32
        witnesses = {
            "lost": [] if sender in dead else [sender],
            "agreement": [one for one in has_it if one not in dead],
            "uniform": has_it,
        }[name]
        missing = [one for one in execution.destinations[message] if one not in dead and one not in has_it]
        if witnesses and missing:
            names = execution.processes
            verb = "has sent" if name == "lost" else "has delivered"
            return f"{names[witnesses[0]]} {verb} {execution.label(message)}, and {names[missing[0]]} never delivers it"
    return ""
