# SPDX-License-Identifier: Apache-2.0
"""Causal order where the sends of one process are only partially ordered (Garg, problem 12.6).

Alice does two things that have nothing to do with each other: mail and chat.  The happened-before relation orders all
that one process sends, so the chat waits at its receivers for mail that is on its way.  The answer: what is ordered is
not the process, but each of its activities.  The algorithm of figure 12.2 stays as it is, with a row and a column for
each activity; a receive belongs to the activity that acts on it.  What one activity does, and what follows
from it, is still delivered in order; what is independent waits for nothing.

Activities may begin and end within a process: a fork and a join are messages between activities, which carry the matrix
as all others do.  So an activity depends on what its process sent before the fork, and after the join the process
depends on both; what two activities do in between is independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from busq.lab.execution import Execution
from busq.lab.observers import Verdict
from busq.lab.scenario import play

__all__ = ["Told", "run", "run_forks"]

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

# Alice sends a word to Bob, and forks two activities: one sends mail to Bob, one chats with Bob; then they join, and
# Alice sends a last word.  The packets come in the opposite order, but for the mail, which comes at the very end.
_FORKS = """\
order {order}: alice {activities}bob
> alice sends first to bob
{forks}> {mailer} sends mail to bob
> {chatter} sends chat to bob
{joins}> alice sends last to bob
> bob receives last
> bob receives chat
> bob receives first
> bob receives mail
> verdict causal
"""


@dataclass(frozen=True)
class Told:
    """A story, with Alice as one process (`whole`) or as several activities, and the order of Bob's deliveries."""

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
    return _told(story, whole=whole)


def run_forks(*, whole: bool) -> Told:
    """Perform the story of a fork and a join.  Cost: a millisecond.

    >>> run_forks(whole=True).delivered
    ('first', 'mail', 'chat', 'last')
    >>> run_forks(whole=False).delivered
    ('first', 'chat', 'mail', 'last')
    """
    mailer, chatter = ("alice", "alice") if whole else ("alice/mail", "alice/chat")
    forks = "".join(f"> alice sends fork-{who} to {who}\n> {who} receives fork-{who}\n" for who in (mailer, chatter))
    joins = "".join(f"> {who} sends join-{who} to alice\n> alice receives join-{who}\n" for who in (mailer, chatter))
    story = _FORKS.format(
        order="causal-matrix",
        activities="" if whole else f"{mailer} {chatter} ",
        mailer=mailer,
        chatter=chatter,
        forks="" if whole else forks,
        joins="" if whole else joins,
    )
    return _told(story, whole=whole)


def _told(story: str, *, whole: bool) -> Told:
    played = play(story, name="the story of Alice's activities")
    execution = played.execution
    bob = execution.processes.index("bob")
    delivered = tuple(
        execution.label(event.message) for event in execution.events if event.kind == "deliver" and event.process == bob
    )
    return Told(whole, played.text, execution, delivered, execution.judge(["causal"])["causal"])
