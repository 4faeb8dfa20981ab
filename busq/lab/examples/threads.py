# SPDX-License-Identifier: Apache-2.0
"""Causal order where the sends of one process are only partially ordered (Garg, problem 12.6).

Alice does two things that have nothing to do with each other: mail and chat.  The happened-before relation orders all
that one process sends, so the chat waits at its receivers for mail that is on its way.  The answer: what is ordered is
not the process, but each of its activities.  The algorithm of figure 12.2 stays as it is, with a row and a column for
each activity; a receive belongs to the activity that acts on it.  What one activity does, and what follows
from it, is still delivered in order; what is independent waits for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from busq.lab.execution import Execution
from busq.lab.observers import Verdict
from busq.lab.scenario import play

__all__ = ["Told", "run"]

# Mail m1 and m2 to Bob; then a word c1 to Carol, and one from Carol to Bob.  The packets of the mail are slow, most of
# all that of m1.
_STORY = """\
order {order}: {mail}{chat}bob carol
> {mailer} sends m1 to bob
> {mailer} sends m2 to bob
> {chatter} sends c1 to carol
> carol receives c1
> carol sends c2 to bob
> bob receives c2
> bob receives m2
> bob receives m1
> verdict causal
"""


@dataclass(frozen=True)
class Told:
    """The story, with Alice as one process (`whole`) or as two activities, and the order of Bob's deliveries."""

    whole: bool
    text: str
    execution: Execution
    delivered: tuple[str, ...]
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "processes": list(self.execution.processes),
            "delivered": list(self.delivered),
            "causal": self.verdict.ok,
            "waited": list(self.waited),
            "transcript": self.text,
        }

    @property
    def waited(self) -> tuple[str, ...]:
        """The messages that came to Bob and were held back."""
        names, events = self.execution.processes, self.execution.events
        here = [event for event in events if names[event.process] == "bob"]
        came = {event.message: event.time_s for event in here if event.kind == "receive"}
        return tuple(
            self.execution.label(event.message)
            for event in here
            if event.kind == "deliver" and event.time_s > came[event.message]
        )


def run(*, whole: bool) -> Told:
    """Perform the story.  Cost: a millisecond.

    >>> run(whole=True).waited
    ('m2', 'c2')
    >>> run(whole=False).waited
    ('m2',)
    """
    mailer, chatter = ("alice", "alice") if whole else ("alice/mail", "alice/chat")
    story = _STORY.format(
        order="causal-matrix",
        mail=f"{mailer} ",
        chat="" if whole else f"{chatter} ",
        mailer=mailer,
        chatter=chatter,
    )
    played = play(story, name="the story of Alice's mail")
    execution = played.execution
    bob = execution.processes.index("bob")
    delivered = tuple(
        execution.label(event.message) for event in execution.events if event.kind == "deliver" and event.process == bob
    )
    return Told(whole, played.text, execution, delivered, execution.judge(["causal"])["causal"])
