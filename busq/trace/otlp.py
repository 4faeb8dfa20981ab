# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry: OTLP in JSON, an export request on each line, as SDKs and the collector write it to files, or
with the names of fields that Protobuf has (`resource_spans`), as its own printers can.

`busq.trace.jaeger` and `busq.trace.zipkin` read spans, too, and `read_with` makes events of them in the same way.

A message is called by its creation context: the span that its producer put into it.

==========================  =======================================================================================
span                        event
==========================  =======================================================================================
create, send, publish       a send, when the span starts; of the messages of the *create* spans that it links to, or
                            of its own.  Without `messaging.operation.type` (or `messaging.operation`): kind PRODUCER.
process, deliver            a delivery, when the span starts, of each message that it links to, or of its parent.
                            Without an operation: kind CONSUMER.
receive                     a delivery, when the span ends, unless the same process has a span that processes it.
settle, and all others      none
==========================  =======================================================================================

A process is an instance of a service: `service.name` with `service.instance.id`, or with its host or pod and
`process.pid`.  Its program order is that of its times.

What spans do not show is a finding, which leaves verdicts open: the intended receivers (so a loss never shows, unless
each message was to all, by the option `broadcast`);
the order of events at equal times, or of threads; whether spans that are not there were ever made.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from busq._util.humanize import amount
from busq.trace.builder import PHANTOM, UNKNOWN_SENDER, Log, by_nature
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.otlp_spans import parse
from busq.trace.run import Run, Source
from busq.trace.schema import Kind, message_of
from busq.trace.spans import CONSUMER, PRODUCER, Context, Span, Spans

__all__ = ["is_log", "read", "read_with"]

_BEGINS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"resource(Spans|Logs|Metrics|_spans|_logs|_metrics)"\s*:')
_SPANS = re.compile(rb'^\s*\{\s*"resource(Spans|_spans)"\s*:', re.MULTILINE)
_ORDERS = ("fifo", "causal", "consistent", "total", "synchronous")
_SENDS = ("fifo", "causal", "synchronous")
_PASTS = ("causal", "synchronous")


def is_log(head: bytes) -> bool:
    """Return whether a text may be such a file, from how it begins; metrics and logs may stand between the spans.

    >>> is_log(b'{"resourceSpans":[]}'), is_log(b'{"resource_spans":[]}'), is_log(b'{"resourceMetrics":[]}')
    (True, True, False)
    """
    return bool(_BEGINS.match(head) and _SPANS.search(head.removeprefix(b"\xef\xbb\xbf")))


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no message, OSError.  Cost: about 50 us, and 3 kB of memory, per span."""
    return read_with(source, columns, parse)


def read_with(source: Source, columns: Sequence[str] | None, parse: Callable[[str, Spans], None]) -> Run:
    """Read one run as `read` does, of whatever format: `parse(path, spans)` adds the spans of a file."""
    parsed = Spans(findings=list(source.findings))
    for path in source.paths:
        parse(path, parsed)
    spans = list(parsed.spans.values())
    names = _processes(spans, parsed.findings)
    messages = _Messages(spans, parsed.findings)
    events = [*messages.sends, *messages.deliveries]
    if not events:
        why = f"; {parsed.findings[0].text}" if parsed.findings else ""
        raise TraceError(f"{source.name}: {amount(len(spans), 'span')}, and none of them sends or gets a message{why}")
    if parsed.repeated:
        text = f"{amount(parsed.repeated, 'span')} were exported again: they count once"
        parsed.findings.append(Finding("repeated-spans", text, parsed.repeated, is_error=False))
    by_process: list[list[_Event]] = [[] for _ in names]
    indices = {process: index for index, process in enumerate(names)}
    for event in events:
        by_process[indices[event.span.process]].append(event)
    for mine in by_process:
        mine.sort(key=lambda event: event.time_ns)
    labels = list(names.values())
    is_broadcast = source.options.get("broadcast") == "true"
    findings = [
        *_untold(messages, parsed.spans, is_broadcast=is_broadcast),
        *_times(by_process, labels),
        *_threads(by_process, labels, parsed.spans),
    ]
    logs = _logs(by_process, indices, messages, is_broadcast=is_broadcast)
    tables = tuple(log.table(source.name, index, columns) for index, log in enumerate(logs))
    return Run(source, tuple(labels), tables, findings=(*parsed.findings, *findings))


def _processes(spans: Iterable[Span], findings: list[Finding]) -> dict[tuple[str, ...], str]:
    """Return the instances with what they are called: by their service, if it has no other."""
    known = dict.fromkeys(span.process for span in spans)
    instances: dict[str, int] = {}
    for service, _ in known:
        instances[service] = instances.get(service, 0) + 1
    names = {
        process: process[0] if instances[process[0]] == 1 else f"{process[0]} {process[1]}".strip() for process in known
    }
    blank = sorted(service for service, instance in known if not instance)
    if blank:
        text = (
            f"no resource tells instances of {', '.join(blank[:3])} apart (service.instance.id): each is taken as one"
            " process, so what seems out of order may be two"
        )
        findings.append(Finding("instances", text, len(blank), is_error=False, may_invent=("duplicated", *_ORDERS)))
    taken = {name: process for process, name in names.items()}
    return {taken[name]: name for name in by_nature(taken)}


# ---- messages ----


@dataclass
class _Event:
    kind: Kind
    time_ns: int
    message: Context
    span: Span


class _Messages:
    """The messages that spans show: their senders and receivers, and when."""

    def __init__(self, spans: Sequence[Span], findings: list[Finding]) -> None:
        self._spans = {span.context: span for span in spans}
        self.sends: list[_Event] = []
        self.deliveries: list[_Event] = []
        self.unlinked: list[Span] = []
        self.missing: dict[Context, Span] = {}  # contexts of messages whose send stands nowhere
        operations = {span.context: _operation(span) for span in spans}
        # Dicts, which keep the order of the files: sets would put events at equal times into another order each time.
        self._creates = {context: None for context, operation in operations.items() if operation == "create"}
        self._send([span for span in spans if operations[span.context] == "send"], findings)
        self.sent = {event.message for event in self.sends}
        self._getting = {
            context: None for context, operation in operations.items() if operation in ("receive", "process")
        }
        self._deliver({span.context: operations[span.context] for span in spans})

    def _send(self, sends: Sequence[Span], findings: list[Finding]) -> None:
        batches = []
        for span in sends:
            created = [link for link in dict.fromkeys(span.links) if link in self._creates]
            self.sends += [_Event(Kind.SEND, span.start_ns, message, span) for message in created or [span.context]]
            if not created and span.batch > 1:
                batches.append(span)
        done = {event.message for event in self.sends}
        alone = [self._spans[context] for context in self._creates if context not in done]
        self.sends += [_Event(Kind.SEND, span.start_ns, span.context, span) for span in alone]
        if batches:
            text = _at(batches[0], f"{amount(len(batches), 'batch', 'batches')} of messages have no spans that create")
            text += " them: all messages of a batch are called the same"
            every = ("duplicated", "phantom", *_ORDERS)
            where = (len(batches), batches[0].path, batches[0].line)
            findings.append(Finding("ambiguous", text, *where, may_hide=_ORDERS, may_invent=every))

    def _deliver(self, operations: Mapping[Context, str]) -> None:
        """Take as delivery what processes a message, and where nothing does, what receives it."""
        getting: dict[tuple[tuple[str, ...], Context], list[Span]] = {}
        for context in self._getting:
            span = self._spans[context]
            if operations[context] == "receive" and self._is_empty(span):
                continue
            messages = self._messages_of(span, set())
            if not messages:
                self.unlinked.append(span)
            for message in messages:
                getting.setdefault((span.process, message), []).append(span)
                if message not in self.sent:
                    self.missing.setdefault(message, span)
        for (_, message), spans in getting.items():
            processing = [span for span in spans if operations[span.context] == "process"]
            for span in processing or spans:
                if not any(self._stands_in(span, other) for other in processing if other is not span):
                    time_ns = span.start_ns if processing else span.end_ns
                    self.deliveries.append(_Event(Kind.DELIVER, time_ns, message, span))

    @property
    def come_back(self) -> bool:
        """Whether a process gets a message that it sent itself."""
        senders = {(event.message, event.span.process) for event in self.sends}
        return any((event.message, event.span.process) in senders for event in self.deliveries)

    def _is_empty(self, span: Span) -> bool:
        """Return whether a span itself shows no message: it waited in vain, or another span shows its message."""
        return (
            not span.links
            and (span.parent is None or span.parent in self._spans)
            and not self._messages_of(span, set())
        )

    def _messages_of(self, span: Span, passed: set[Context]) -> list[Context]:
        """Return the messages that a span gets: by its links, or by its parent."""
        linked = [link for link in dict.fromkeys(span.links) if link in self.sent or link not in self._spans]
        if linked or span.parent is None or span.parent in passed:
            return linked
        parent = self._spans.get(span.parent)
        if parent is None or span.parent in self.sent:
            return [span.parent]
        if span.parent not in self._getting or parent.process != span.process:
            return []
        messages = self._messages_of(parent, passed | {span.context})
        return messages if len(messages) == 1 else []

    def _stands_in(self, span: Span, outer: Span) -> bool:
        return outer.context in ancestors(span, self._spans)


def ancestors(span: Span, spans: Mapping[Context, Span]) -> Iterator[Context]:
    """Give the contexts of the parent of a span, of its parent, and so on, within its process."""
    passed = {span.context}
    parent = span.parent
    while parent is not None and parent not in passed and parent in spans and spans[parent].process == span.process:
        yield parent
        passed.add(parent)
        parent = spans[parent].parent


def _operation(span: Span) -> str:
    """Return what a span does with messages: "create", "send", "receive", "process", or nothing that counts."""
    if span.operation in ("create", "send", "receive", "process", "settle"):
        return span.operation
    return {PRODUCER: "send", CONSUMER: "process"}.get(span.kind, "")


def _at(span: Span, text: str) -> str:
    return f"{span.path}:{span.line}: {text}"


# ---- what spans do not show ----


def _untold(messages: _Messages, spans: Mapping[Context, Span], *, is_broadcast: bool) -> Iterator[Finding]:
    hidden = () if is_broadcast else ("lost",)
    invented = ("lost",) if is_broadcast else ()  # receivers may stand in spans that are not there
    why = "those who got a message are taken as such, so no loss can be told"
    if is_broadcast:
        why = f"each message is taken as sent to all{'' if messages.come_back else ' but its sender'}, as asked for"
    text = f"spans tell no destinations: {why}"
    yield Finding("no-destinations", text, len(messages.sends), is_error=False, may_hide=hidden)
    got = {event.message for event in messages.deliveries}
    never = [event for event in messages.sends if event.message not in got]
    if never:
        first = never[0].span
        text = _at(first, "sent, and no span got it: nobody was meant to, it was lost, or it is still under way")
        yield Finding("never-consumed", text, len(never), first.path, first.line, is_error=False, may_hide=hidden)
    if messages.missing:
        first = next(iter(messages.missing.values()))
        text = _at(first, f"gets a message of {next(iter(messages.missing))[1]}, a span that stands in no file")
        text += ": not sampled, not exported, or invented"
        yield Finding(
            *("missing-spans", text, len(messages.missing), first.path, first.line),
            may_hide=_ORDERS,
            may_invent=("phantom",),
        )
    if messages.unlinked:
        first = messages.unlinked[0]
        text = _at(first, "gets messages, and neither a link nor its parent says which: left out")
        every = ("lost", "duplicated", "phantom", *_ORDERS)
        where = (len(messages.unlinked), first.path, first.line)
        yield Finding("unlinked", text, *where, may_hide=every, may_invent=invented)
    sampled = [span for span in spans.values() if span.is_sampled]
    if sampled:
        text = _at(sampled[0], "sampled (tracestate): messages that were not are not seen")
        where = (len(sampled), sampled[0].path, sampled[0].line)
        yield Finding("sampled", text, *where, is_error=False, may_hide=_PASTS, may_invent=invented)
    dropped = [span for span in spans.values() if span.dropped_links]
    if dropped:
        text = _at(dropped[0], "links were dropped, and with them messages that it got")
        where = (len(dropped), dropped[0].path, dropped[0].line)
        yield Finding("unlinked", text, *where, may_hide=_ORDERS, may_invent=invented)
    yield from _other_causes(spans)


def _other_causes(spans: Mapping[Context, Span]) -> Iterator[Finding]:
    """Report calls between processes: causes, too, and no messages."""
    calls = [
        span
        for span in spans.values()
        if span.kind != CONSUMER and span.parent and spans.get(span.parent, span).process != span.process
    ]
    if calls:
        text = _at(calls[0], "called by another process: such calls are no messages, so causes may travel unseen")
        yield Finding("calls", text, len(calls), calls[0].path, calls[0].line, is_error=False, may_hide=("causal",))


def _times(by_process: Sequence[Sequence[_Event]], labels: Sequence[str]) -> Iterator[Finding]:
    """Report events whose order the times leave open; and that these are of wall clocks."""
    text = "times are of clocks on the wall, of as many hosts as there are: latencies are as right as these"
    yield Finding("wall-clocks", text, is_error=False, may_hide=("side",), may_invent=("side",))
    for mine, label in zip(by_process, labels, strict=True):
        equal = [(one, two) for one, two in pairwise(mine) if one.time_ns == two.time_ns]
        if equal:
            span = equal[0][1].span
            text = _at(span, f"{label} has events at equal times, whose order nobody knows")
            where = (len(equal), span.path, span.line, label)
            yield Finding("equal-times", text, *where, is_error=False, may_hide=_ORDERS, may_invent=_ORDERS)


def _threads(
    by_process: Sequence[Sequence[_Event]], labels: Sequence[str], spans: Mapping[Context, Span]
) -> Iterator[Finding]:
    """Report processes that do several things at once: these have an order in time, and no program order."""
    for mine, label in zip(by_process, labels, strict=True):
        sends = [event.span for event in mine if event.kind == Kind.SEND]
        handlers = [event.span for event in mine if event.kind == Kind.DELIVER]
        for name, at_once, checks in (
            ("sends", _overlapping(sends), _SENDS),
            ("messages in work", _overlapping(handlers) or _beside(sends, handlers, spans), _PASTS),
        ):
            if at_once:
                text = _at(at_once[0], f"{label} has several {name} at once: which came first for it, nobody knows")
                where = (len(at_once), at_once[0].path, at_once[0].line, label)
                yield Finding("threads", text, *where, is_error=False, may_invent=checks)


def _overlapping(spans: Iterable[Span]) -> list[Span]:
    """Return those that start before one that started earlier has ended."""
    overlapping, end_ns = [], 0
    for span in sorted({span.context: span for span in spans}.values(), key=lambda span: span.start_ns):
        if span.start_ns < end_ns:
            overlapping.append(span)
        end_ns = max(end_ns, span.end_ns)
    return overlapping


def _beside(sends: Sequence[Span], handlers: Sequence[Span], spans: Mapping[Context, Span]) -> list[Span]:
    """Return sends while a message is in work that they don't belong to; no two messages are at work at once."""
    ordered = sorted(handlers, key=lambda span: span.start_ns)
    starts = [span.start_ns for span in ordered]
    outside = []
    for send in sends:
        place = bisect_right(starts, send.start_ns) - 1
        at_work = ordered[place] if place >= 0 else None
        if at_work and send.start_ns < at_work.end_ns and at_work.context not in ancestors(send, spans):
            outside.append(send)
    return outside


# ---- logs ----


def _logs(
    by_process: Sequence[Sequence[_Event]],
    indices: Mapping[tuple[str, ...], int],
    messages: _Messages,
    *,
    is_broadcast: bool,
) -> list[Log]:
    numbers: dict[Context, int] = {}
    for process, mine in enumerate(by_process):
        new = dict.fromkeys(event.message for event in mine if event.kind == Kind.SEND)
        first = [message for message in new if message not in numbers]
        numbers |= {message: message_of(process, number) for number, message in enumerate(first, 1)}
    numbers |= {message: message_of(UNKNOWN_SENDER, PHANTOM + at) for at, message in enumerate(messages.missing)}
    to: dict[Context, set[int]] = {}
    for event in messages.deliveries:
        to.setdefault(event.message, set()).add(indices[event.span.process])
    logs = []
    for process, mine in enumerate(by_process):
        everybody = [other for other in range(len(by_process)) if messages.come_back or other != process]
        log = Log()
        for event in mine:
            label = event.span.message_id if event.message == event.span.context or event.kind == Kind.DELIVER else ""
            others: dict[str, Any] = {"time_ns": event.time_ns, "label": label or None}
            if event.kind == Kind.SEND:
                chosen = everybody if is_broadcast else sorted(to.get(event.message, ()))
                others |= {"destinations": chosen, "end_ns": event.span.end_ns}
            log.add(event.kind, numbers[event.message], **others)
        logs.append(log)
    return logs
