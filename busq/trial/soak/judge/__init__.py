# SPDX-License-Identifier: Apache-2.0
"""Compares the ledgers of a soak: does each promise hold, after all those kills?

The judge knows nothing of how the bus works.  The ledgers show what each worker called, what it received and in which
order; the killer recorded which process died, and when.

The promises about messages depend on the receiver's mode:

=========  ==========================================================================================================
plain      each message at most once.  A message that was under way to a life that was killed may end with it
           (`losses`).  All others arrive.
resume     the same, but a death costs only what the life had taken and not recorded (`losses`)
ack,       each message at least once, and again after a death only if it had not been acknowledged: then it must come
durable    again, marked as redelivered, and in order.  Nothing is excused.
shared     each message at least once to one of those that read the queue, and again only after the death of the one
           that had it, to any of them, marked, and out of order: others have gone past it.  Nothing is excused.
=========  ==========================================================================================================

A send that raised has sent nothing.  A send that a kill interrupted happened or not: either no receiver got the
message, or all to which it is promised as above; otherwise it is `torn`.  In a batch, the messages before one that
arrived were sent.

No process may be blocked for a second: neither a receiver by whatever stands before a message that had been sent and
that it was free to receive, nor one that sends, joins or makes another call.  The time during which a process was
stopped, or wanted a processor and got none (the kernel counts it), is left out: it is the system that blocked it.

Order is judged by the observers of `busq.spec` on first deliveries; views and ends of nodes count as messages to those
that got them.  A repetition has no place of its own in the order of the bus: its place was taken when it was delivered
first.

About members there are more promises:

============  =======================================================================================================
views         a view of a group is the same for all that got it, and differs from the one before by one member; each
              member gets all of them, from the one that it enters by to the one that it is out of; a member that died
              by a view has died; after the last view no dead member is left
outside       a message to a group is delivered in the same view by all
torn          whichever stream got a view and the next one got everything in between that was delivered in that view
lost          a message whose send returned also came to each worker that was a member from before until after the
              send, and to the owner of the node that it was sent to
phantom       a message brings the handles that were given to it
deaths        a watcher gets "joined" and "left" in turn; nothing of the dead one comes after its "left"; a plain peer
              has one of each for every life, and every death is noticed
nodes         the notice of a node's end comes once, to its owner and to each holder of a handle; after it come neither
              messages to the node nor handles that are alive; what is sent after `destroy` has returned misses it; an
              owner gets one notice each time that its node has no holder any more
replicas      where two replicas stand at the same position they have the same state; positions go up by one; every
              result of the counter is returned once; what was put stays
lock          no two hold it at the same time
============  =======================================================================================================

A worker that resumes without being durable may find that its death was noticed: then its membership, its watches, its
nodes and what it held have ended without a notice to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.trial.soak.judge.case import Case
from busq.trial.soak.judge.findings import Findings
from busq.trial.soak.judge.groups import judge_groups
from busq.trial.soak.judge.messages import (
    count_messages,
    judge_excuses,
    judge_losses,
    judge_order,
    judge_origin,
    judge_shared,
    judge_time,
)
from busq.trial.soak.judge.nodes import judge_nodes
from busq.trial.soak.judge.reading import Worker, read_worker
from busq.trial.soak.judge.replicas import judge_replicas
from busq.trial.soak.judge.watches import judge_watches

__all__ = ["Findings", "Worker", "judge", "read_worker"]


def judge(workers: Sequence[Worker], about: str = "messages") -> Findings:
    """Judge the ledgers of one round, from birth to leaving.

    `workers` are what `read_worker` made of all ledgers, by index; `about` is what they did.  Cost: some 20 us per
    record.
    """
    case, findings = Case(workers), Findings(about)
    judge_origin(case)
    judge_losses(case)
    judge_shared(case)
    if about == "members":
        judge_groups(case, findings)
        judge_watches(case)
        judge_nodes(case, findings)
        judge_replicas(case, findings)
    judge_excuses(case, findings)
    judge_time(case, findings)
    count_messages(case, findings)
    findings.decide(case.faults)
    findings.verdicts.update(judge_order(case))
    return findings
