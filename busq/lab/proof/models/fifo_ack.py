# SPDX-License-Identifier: Apache-2.0
"""The order `fifo-ack` of `csrc/order/fifo_ack.c`, for any number of processes and messages.

Its actions are those of `mfss.py`, with a wait per receiver: what goes to one does not wait for what goes to another.
So it is not causal.  The network delays and reorders as it likes.
"""

from __future__ import annotations

from busq.lab.proof.logic import *
from busq.lab.proof.models import mfss
from busq.lab.proof.models.mfss import (
    NONE_OPEN_THERE,
    ahead,
    before,
    deliver,
    delivered,
    is_open_from,
    m,
    m1,
    m2,
    p,
    q,
    receive_ack,
    send,
    sent,
    source,
    submit,
    submit_own,
    submitted,
    target,
)
from busq.lab.proof.models.rest import at_rest

__all__ = ["FIFO", "STILL", "SYSTEM"]

IS_FIRST_THERE = forall(m1, q, all_of(ahead(m1, m), target(m1, q), target(m, q)) >> sent(m1))
SEND = send(IS_FIRST_THERE, NONE_OPEN_THERE)
STILL = at_rest(SEND, deliver(), receive_ack())

KEPT = (
    "what is sent was submitted",
    "what is delivered was sent",
    "what is acknowledged was delivered",
    "a message to oneself is done at once",
    "a buffer is of what its process has submitted",
    "a buffer is a line",
    "the history is of deliveries at one place",
    "the history is whole",
    "the history is without repetition",
    "the history is not against the buffer",
)
INVARIANTS = {claim: mfss.INVARIANTS[claim] for claim in KEPT} | {
    "what is ahead to a receiver was delivered before": forall(
        *(m1, m2, p, q),
        all_of(ahead(m1, m2), sent(m2), source(m2, p), target(m1, q), target(m2, q)) >> delivered(m1),
    ),
    "one message of a process to another is open": forall(
        *(m1, m2, p, q),
        all_of(is_open_from(p, m1), is_open_from(p, m2), target(m1, q), target(m2, q)) >> same(m1, m2),
    ),
}

FIFO = "FIFO: a receiver delivers what one process has sent to it in the order in which that has submitted it"
PROPERTIES = {
    FIFO: mfss.PROPERTIES[FIFO],
    "one at a time: what a process sends to another is delivered before that sends its next there": forall(
        *(m1, m2, q), all_of(ahead(m1, m2), sent(m2), target(m1, q), target(m2, q)) >> delivered(m1)
    ),
    "no loss: at rest, what was submitted is delivered, or something ahead of it is not": STILL
    >> forall(
        *(m, q),
        all_of(submitted(m), target(m, q), ~delivered(m))
        >> exists(m1, all_of(ahead(m1, m), target(m1, q), ~delivered(m1))),
    ),
    "no invention: only what was sent is delivered": INVARIANTS["what is delivered was sent"],
    "no duplicate: nothing is delivered twice": forall(m, ~before(m, m)),
}

SYSTEM = System(
    name="fifo-ack",
    meaning="the order fifo-ack, over any network",
    sorts=mfss.SYSTEM.sorts,
    symbols=mfss.SYSTEM.symbols,
    axioms=mfss.SYSTEM.axioms,
    actions=(submit(), submit_own(), SEND, deliver(), receive_ack()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=(
        Mutant("no-wait-there", "what is first for a receiver is sent at once", (send(IS_FIRST_THERE, TRUE),)),
        Mutant("any-there", "any message for a receiver may be sent next", (send(TRUE, NONE_OPEN_THERE),)),
        Mutant("early-ack-there", "the acknowledgement is sent before the message is delivered", (receive_ack(TRUE),)),
    ),
)
