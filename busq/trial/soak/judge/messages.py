# SPDX-License-Identifier: Apache-2.0
"""The promises about messages: none is lost, doubled, made up, late or out of order."""

from __future__ import annotations

import itertools
from array import array
from dataclasses import dataclass, replace

from busq.lab.execution import Log
from busq.lab.observers import History, Verdict
from busq.lab.witness import describe as words_of
from busq.trial.soak.judge.case import Case
from busq.trial.soak.judge.findings import BLOCKED_NS_MAX, Findings, Idle
from busq.trial.soak.judge.reading import NEVER_NS, Fate, Item, Life, Send, Worker
from busq.trial.soak.judge.streams import begun_ns
from busq.trial.soak.ledger import Kind, Phase, describe, node_event
from busq.trial.soak.plan import Mode

__all__ = [
    "count_messages",
    "judge_excuses",
    "judge_losses",
    "judge_order",
    "judge_origin",
    "judge_shared",
    "judge_time",
]


def judge_origin(case: Case) -> None:
    """Nothing is made up: what came had been sent to its receiver, with the handles that it brought."""
    judged: set[tuple[int, int]] = set()
    for worker, item, send in case.deliveries():
        if (worker.index, item.name) in judged:
            continue
        judged.add((worker.index, item.name))
        text = f"{worker.name} delivered {item}"
        if send is None or send.fate == Fate.FAILED:
            case.fault("phantom", f"{text}, " + ("which was never sent" if send is None else "whose send had failed"))
            continue
        own = [node for node in send.aimed if node not in case.owners or case.owns(worker, node)]
        if worker.queue not in send.names and not send.groups and not own:
            case.fault("phantom", f"{text}, not sent to it")
        if tuple(node for node, _ in item.got) != send.carries:
            case.fault("phantom", f"{text} with other handles than were sent with it")
        if any(node not in send.aimed or node in send.missed for node in item.at):
            case.fault("phantom", f"{text} at a node to which it was not sent, or which it had missed")


def judge_losses(case: Case) -> None:
    """Everything sent by name came, but for what the deaths of its receiver excuse."""
    for send in case.sends.values():
        for queue in send.names if send.has_happened else ():
            if queue not in send.got:
                case.miss(queue, send)


def judge_excuses(case: Case, findings: Findings) -> None:
    """No death excuses more losses than its call could have taken; last, when all that was missed is known."""
    for worker, losses in zip(case.workers, case.losses, strict=True):
        for send, why in losses.unexcused():
            case.lose(worker, send, why)
        what = "dropped_with_receiver" if worker.mode == Mode.PLAIN else "taken_at_kill"
        findings.counts[what] += losses.excused


# ---- a queue that several workers share ----


@dataclass
class _Take:
    """A delivery out of a shared queue."""

    item: Item
    reader: Worker
    life: Life

    def __str__(self) -> str:
        return f"{self.reader.name} (life {self.life.number}) delivered {self.item}"


def judge_shared(case: Case) -> None:
    """A reader gets a message again only from one that died with it; all messages are acknowledged in the end."""
    readers = [worker for worker in case.workers if worker.mode == Mode.SHARED]
    deaths = [life for reader in readers for life in reader.lives if life.died_ns]
    unsure = {life.subject for life in deaths if life.phase == Phase.ACKING}
    takes: dict[int, list[_Take]] = {}
    for reader in readers:
        for item in reader.items:
            takes.setdefault(item.name, []).append(_Take(item, reader, reader.life(item.life)))
    for message, taken in takes.items():
        taken.sort(key=lambda take: take.item.time_ns)
        acked_ns = min(take.item.acked_ns for take in taken)
        for before, take in itertools.pairwise(taken):
            if fault := _fault_of(before, take, acked_ns):
                case.fault("duplicated", f"{take} again, {fault}")
        first = taken[0]
        since_ns = begun_ns(case.sends, first.item)
        if first.item.is_marked and not any(
            life.phase == Phase.RECEIVING and since_ns <= life.died_ns and life.killed_ns <= first.item.time_ns
            for life in deaths
        ):
            case.fault("redelivery", f"{first} marked as redelivered, and no call that was killed can have taken it")
        if acked_ns == NEVER_NS and message not in unsure:
            text = f"{taken[-1].reader.name} was killed before it acknowledged {taken[-1].item}"
            case.fault("lost", f"{text}, and it never came again")


def _fault_of(before: _Take, take: _Take, acked_ns: int) -> str | None:
    """Return the fault of a delivery of a message that one of the readers had delivered before."""
    if not take.item.is_marked:
        return "and not marked as redelivered"
    if acked_ns < take.item.time_ns:
        return "after it had been acknowledged"
    had = f"{before.reader.name} (life {before.life.number})"
    return f"while {had} had it" if not before.life.died_ns or take.item.time_ns < before.life.killed_ns else None


# ---- time ----


class _Clock:
    """Measures how long one worker was kept waiting, and what of that was beside a stopped one."""

    def __init__(self, case: Case, worker: Worker, findings: Findings) -> None:
        self._idle = Idle(worker.idle_ns)
        self._stopped = [stop for other in case.workers if other is not worker for stop in other.stopped_ns]
        self._findings = findings

    def took(self, begin_ns: int, end_ns: int) -> int:
        """Return how long something took, without the time in which the system kept the worker from running."""
        took_ns = self._idle.took(begin_ns, end_ns) if begin_ns < end_ns else 0
        if took_ns > self._findings.beside_stopped_ns_max and any(
            begin < end_ns and begin_ns < end for begin, end in self._stopped
        ):
            self._findings.beside_stopped_ns_max = took_ns
        return took_ns


def judge_time(case: Case, findings: Findings) -> None:
    """No worker was kept waiting: neither for what was there, nor in a call."""
    for worker in case.workers:
        clock = _Clock(case, worker, findings)
        findings.starved_ns_max = max(findings.starved_ns_max, worker.starved_ns_max)
        for item in worker.items:
            send = case.sends.get(item.name) if item.kind == Kind.DELIVERED else None
            if send is None or item.is_marked or send.is_interrupted:
                continue
            took_ns = clock.took(max(item.since_ns, send.known_ns), item.time_ns)
            findings.waits.note(took_ns)
            if took_ns > BLOCKED_NS_MAX:
                case.fault("blocked", f"{worker.name} got {item} {took_ns / 1e9:.2f} s late")
        for call, begin_ns, end_ns in worker.calls_ns:
            took_ns = clock.took(begin_ns, end_ns)
            name = {"a send": "sends_ns_max", "a join": "joins_ns_max"}.get(call, "changes_ns_max")
            setattr(findings, name, max(getattr(findings, name), took_ns))
            if took_ns > BLOCKED_NS_MAX:
                case.fault("blocked", f"{call} of {worker.name} took {took_ns / 1e9:.2f} s")


# ---- order ----


def judge_order(case: Case) -> dict[str, Verdict]:
    """Hold the order against the observers of `busq.spec`."""
    verdicts = {
        **_causal_history(case).judge(("fifo", "causal")),
        **_order_history(case).judge(("consistent", "total")),
    }
    return {
        name: replace(verdict, text=words_of(name, verdict.witness, describe)) for name, verdict in verdicts.items()
    }


def _causal_history(case: Case) -> History:
    """For the causal past, all lives of a worker are one process, and an interrupted send may be one of its own."""
    receivers: dict[int, list[int]] = {}
    for stream in case.streams:
        for item in stream.messages:
            receivers.setdefault(item.name, []).append(stream.worker.index)
    apart = [send.message for send in case.sends.values() if send.message in receivers and case.is_apart(send)]
    processes = {message: len(case.workers) + number for number, message in enumerate(apart)}
    names = [worker.name for worker in case.workers]
    history = History(names + [f"the interrupted send of {describe(message)}" for message in apart])
    for worker in case.workers:
        log = Log()
        for what in worker.log:
            if isinstance(what, Item):
                if what.kind == Kind.DELIVERED and id(what) in case.fresh and what.name in case.sends:
                    log.deliver(what.name)
            elif what.message in processes:
                history.send(processes[what.message], what.message, receivers[what.message])
            elif what.fate != Fate.FAILED and what.message in receivers:
                log.send(what.message, receivers[what.message])
        log.add_to(history, worker.index)
    return history


def _order_history(case: Case) -> History:
    """Messages, views and ends of nodes, as if one more process had sent them all to those that got them."""
    nodes: dict[int, int] = {}
    received: list[list[int]] = []
    receivers: dict[int, list[int]] = {}
    for at, stream in enumerate(case.streams):
        names = [
            node_event(nodes.setdefault(item.extra, len(nodes))) if item.kind == Kind.NODE_DESTROYED else item.name
            for item in stream.items
            if item.kind in (Kind.DELIVERED, Kind.VIEW, Kind.NODE_DESTROYED)
        ]
        received.append(names)
        for name in names:
            receivers.setdefault(name, []).append(at)
    history = History([stream.name for stream in case.streams] + ["all senders"])
    log = Log()
    for name, places in receivers.items():
        log.send(name, sorted(set(places)))
    log.add_to(history, len(case.streams))
    for at, names in enumerate(received):
        history.deliver_many(at, array("Q", names))
    return history


def count_messages(case: Case, findings: Findings) -> None:
    """Count what was sent and received."""
    counts = findings.counts
    for send in case.sends.values():
        _count_send(send, findings)
    for worker in case.workers:
        counts["deliveries"] += len(worker.items)
        counts["redelivered"] += sum(item.is_marked for item in worker.items)
        counts["lives"] += len(worker.lives)
        if worker.mode != Mode.PLAIN:
            counts["resumes"] += sum(bool(life.joined_ns) for life in worker.lives[1:])


def _count_send(send: Send, findings: Findings) -> None:
    counts = findings.counts
    if not send.has_happened:
        counts["refused" if send.fate == Fate.FAILED else "undone"] += 1
        return
    counts["messages"] += 1
    counts["replies"] += send.is_replied
    counts["completed"] += send.is_interrupted
    counts["to_groups"] += bool(send.groups)
    counts["to_nodes"] += bool(send.aimed)
    counts["missed"] += bool(send.missed)
    counts["carried"] += len(send.carries)
