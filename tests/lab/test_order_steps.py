# SPDX-License-Identifier: Apache-2.0
"""Every execution of a few messages that the compiled orders have is one of their proven models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from order_steps import (
    Caused,
    Followed,
    Follower,
    Reading,
    Refused,
    Sends,
    Step,
    bus1_steps,
    causal_steps,
    cykas_steps,
    fifo_steps,
    lamport_release_steps,
    lamport_steps,
    mfss_steps,
    sequencer_steps,
    skeen_steps,
    sync_steps,
    token_rest_steps,
    token_steps,
)

from busq.lab.proof import MODELS, Scene
from busq.lab.proof.models import (
    bus1,
    causal,
    cykas,
    fifo,
    fifo_ack,
    lamport,
    lamport_release,
    mfss,
    sequencer,
    skeen,
    stamped,
    sync,
    token,
    token_rest,
)
from busq.orders import ORDERS

TIMES = 100  # more than the clocks of these executions reach
NUMBERS = 10
RESTS = {
    "bus1": bus1.STILL,
    "causal-matrix": causal.STILL,
    "cykas": cykas.STILL,
    "fifo": fifo.STILL,
    "fifo-ack": fifo_ack.STILL,
    "lamport": lamport.STILL,
    "lamport-release": lamport_release.STILL,
    "mfss": mfss.STILL,
    "sequencer": sequencer.STILL,
    "skeen": skeen.STILL,
    "sync": sync.STILL,
    "token": token.STILL,
    "token-rest": token_rest.STILL,
}


@dataclass(frozen=True)
class Play:
    """An order with messages to send, and the model that it is held against."""

    order: str
    model: str
    read: Reading
    scene: Scene
    sends: Sends
    network: str | None = None
    begins: tuple[Step, ...] = ()

    def __str__(self) -> str:
        sends = " ".join(f"{source}to{''.join(map(str, to))}" for source, to in self.sends)
        return f"{self.order}-{self.network or 'channels'}-{sends}"

    def follower(self) -> Follower:
        return Follower(
            *(self.order, MODELS[self.model], self.scene, self.sends, self.read, RESTS[self.model]),
            network=self.network,
            begins=self.begins,
        )


def sends_of(text: str) -> Sends:
    """Messages as "0>12", from process 0 to processes 1 and 2."""
    return [(int(one[0]), [int(to) for to in one[2:]]) for one in text.split()]


def one_to_one(order: str, text: str, model: str = "") -> Play:
    sends, model = sends_of(text), model or order
    make, read = {
        "fifo": (fifo.scene, fifo_steps),
        "fifo-ack": (mfss.scene, mfss_steps),
        "mfss": (mfss.scene, mfss_steps),
        "cykas": (cykas.scene, cykas_steps),
        "sync": (sync.scene, sync_steps),
    }[model]
    return Play(order, model, read, make([(source, to) for source, (to,) in sends]), sends)


def skeen_play(text: str, read: Reading = skeen_steps) -> Play:
    sends = sends_of(text)
    scene = skeen.scene([source for source, _ in sends], [set(to) for _, to in sends], times=TIMES)
    return Play("skeen", "skeen", read, scene, sends)


def bus1_play(order: str, text: str, read: Reading = bus1_steps) -> Play:
    sends = sends_of(text)
    directs = [m for m, (source, to) in enumerate(sends) if "direct" in order and len(to) == 1 and source not in to]
    scene = bus1.scene([source for source, _ in sends], [set(to) for _, to in sends], directs=directs, times=TIMES)
    return Play(order, "bus1", read, scene, sends)


def causal_play(order: str, text: str) -> Play:
    sends = sends_of(text)
    scene = causal.scene([source for source, _ in sends], [set(to) for _, to in sends])
    return Play(order, "causal-matrix", causal_steps, scene, sends)


def sequencer_play(text: str, network: str | None = None) -> Play:
    sends = sends_of(text)
    scene = sequencer.scene([source for source, _ in sends], [set(to) for _, to in sends])
    return Play("sequencer", "sequencer", sequencer_steps, scene, sends, network)


def to_all(senders: str, processes: int) -> Sends:
    return [(int(sender), range(processes)) for sender in senders]


def lamport_play(order: str, senders: str, processes: int, network: str | None = None) -> Play:
    is_for_all = order == "lamport:ack=all"
    model, read = ("lamport", lamport_steps) if is_for_all else ("lamport-release", lamport_release_steps)
    scene = stamped.scene([int(sender) for sender in senders], processes=processes, times=TIMES)
    return Play(order, model, read, scene, to_all(senders, processes), network)


def token_play(senders: str, processes: int) -> Play:
    scene = token.scene([int(sender) for sender in senders], processes=processes, numbers=NUMBERS)
    begins = (("start", (0, 0)),)  # with the token at process 0
    return Play("token", "token", token_steps, scene, to_all(senders, processes), begins=begins)


def token_rest_play(senders: str, processes: int) -> Play:
    scene = token_rest.scene([int(sender) for sender in senders], processes=processes)
    begins = (*(("visit", (process,)) for process in range(1, processes)), ("park", (0,)))
    return Play("token", "token-rest", token_rest_steps, scene, to_all(senders, processes), begins=begins)


def one_lower(read: Reading, action: str) -> Reading:
    """The same steps, but for the timestamps of an action, which stand one below what they are."""

    def steps(caused: Caused) -> Iterator[Step]:
        for name, arguments in read(caused):
            yield name, (*arguments[:-1], arguments[-1] - 1) if name == action else arguments

    return steps


PLAYS = [
    bus1_play("bus1", "0>01 1>01"),
    bus1_play("bus1:unicast=direct", "0>1 0>1 1>01"),
    bus1_play("bus1:unicast=direct", "0>1 1>01 1>1"),
    bus1_play("bus1:estimate=best", "0>01 1>1 1>0"),
    skeen_play("0>12 1>01"),
    one_to_one("fifo", "0>1 0>1 0>1 2>1"),
    one_to_one("fifo:on_gap=skip", "0>1 0>1 0>1", "fifo"),
    one_to_one("fifo-ack", "0>1 0>2 0>1 0>0"),
    one_to_one("cykas", "0>2 0>1 1>2"),
    one_to_one("cykas", "0>1 0>2 1>0"),
    one_to_one("mfss", "0>2 0>1 1>2 2>0"),
    one_to_one("mfss", "0>1 0>0 0>1 1>0"),
    one_to_one("sync", "0>1 1>0 2>0"),
    one_to_one("sync", "0>1 1>2 2>0"),
    token_play("01", 2),
    token_rest_play("01", 2),
    token_rest_play("11", 2),
    sequencer_play("0>012 1>012 1>02"),
    lamport_play("lamport", "01", 3),
    lamport_play("lamport", "001", 2),
    lamport_play("lamport:ack=all", "0011", 2),
    causal_play("causal-matrix", "0>2 0>1 1>2 2>01"),
    causal_play("causal-vector", "0>12 1>02 1>02"),
]
LONG_PLAYS = [
    bus1_play("bus1:unicast=direct", "0>1 0>1 1>01 1>1"),
    skeen_play("0>01 0>01 1>01"),
    one_to_one("fifo-ack", "0>1 0>2 0>1 0>0 1>0"),
    one_to_one("cykas", "0>1 0>2 1>0 2>0"),
    one_to_one("sync", "0>1 1>0 1>2 2>0"),
    one_to_one("cykas", "0>2 0>1 1>0 1>2 2>1"),  # the messages of figure 3
    token_play("01", 3),
    token_rest_play("12", 3),
    lamport_play("lamport:ack=all", "01", 3),
]
# What breaks a rule that its neighbour keeps, and the step at which that shows.
REFUSED = [
    (one_to_one("fifo-ack", "0>2 0>1 1>2", "mfss"), "send"),
    (one_to_one("none", "0>1 0>1", "fifo"), "send"),
    (one_to_one("cykas-telling", "0>2 0>1 1>0 1>2 2>1", "cykas"), "send"),
    (one_to_one("mfss", "0>1 1>0", "sync"), "send_up"),
    (skeen_play("0>01 1>01", one_lower(skeen_steps, "receive_data")), "receive_data"),
    (bus1_play("bus1", "0>01 1>01", one_lower(bus1_steps, "choose")), "choose"),
    (lamport_play("lamport-literal", "01", 3), "deliver"),
    (lamport_play("lamport", "01", 2, "unordered"), "receive_ack"),
    (lamport_play("lamport:ack=all", "01", 2, "unordered"), "hear"),
    (sequencer_play("1>0 1>0", "unordered"), "multicast"),
    (sequencer_play("0>012 0>012", "unordered"), "deliver"),
    (causal_play("none", "0>2 0>1 1>2"), "deliver"),
]


def followed(play: Play) -> Followed:
    found = play.follower().follow()
    print(f"{play}: {found.executions} executions, {found.edges} decisions, {dict(found.steps)}")
    return found


@pytest.mark.parametrize("model", sorted({play.model for play in PLAYS}))
def test_every_execution_of_the_code_is_one_of_the_model(model: str) -> None:
    """And each action of the model is one that the code takes; where the code comes to rest, the model does."""
    taken: set[str] = set()
    for play in PLAYS:
        if play.model == model:
            taken.update(followed(play).steps)
    assert taken == {action.name for action in MODELS[model].actions}


def test_every_order_that_has_a_model_is_followed() -> None:
    assert set(MODELS) & set(ORDERS) <= {play.model for play in PLAYS}


@pytest.mark.long
@pytest.mark.parametrize("play", LONG_PLAYS, ids=str)
def test_more_executions_of_the_code_are_of_the_model(play: Play) -> None:
    """Some 450,000 decisions, in a minute and a half of processor time."""
    assert followed(play).executions > 0


@pytest.mark.parametrize(("play", "step"), REFUSED, ids=[str(play) for play, _ in REFUSED])
def test_an_order_that_breaks_a_rule_is_refused(play: Play, step: str) -> None:
    with pytest.raises(Refused, match=rf"{play.order} takes a step that {play.model} has not: {step}\("):
        play.follower().follow()
