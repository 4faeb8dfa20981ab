# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry: OTLP in JSON, an export request on each line, as SDKs and the collector write it to files.

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

What spans don't tell is a finding, which leaves verdicts open: who should have got a message (so a loss never shows);
the order of events at equal times, or of threads; whether spans that are not there were ever made.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from busq._util.humanize import amount
from busq.trace.builder import PHANTOM, UNKNOWN_SENDER, Log, by_nature
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.run import Run, Source
from busq.trace.schema import Kind, message_of
from busq.trace.text import BadLines, content, decoded

__all__ = ["is_log", "read"]

Context = tuple[str, str]  # trace and span

_BEGINS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"resource(Spans|Logs|Metrics)"\s*:')
_SPANS = re.compile(rb'^\s*\{\s*"resourceSpans"\s*:', re.MULTILINE)
_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_PRODUCER, _CONSUMER = 4, 5
_OPERATIONS = {
    "create": "create",
    "send": "send",
    "publish": "send",
    "receive": "receive",
    "process": "process",
    "deliver": "process",
    "settle": "settle",
}
_INSTANCE = ("service.instance.id",)
_PLACE = ("k8s.pod.uid", "k8s.pod.name", "container.id", "host.id", "host.name", "process.pid")
_TIME_MAX = 1 << 63

_ORDERS = ("fifo", "causal", "consistent", "total", "synchronous")
_SENDS = ("fifo", "causal", "synchronous")
_PASTS = ("causal", "synchronous")


class _Bad(Exception):
    """A span that means nothing; the text says why."""


@dataclass
class _Span:
    context: Context
    parent: Context | None
    process: tuple[str, ...]
    kind: int
    operation: str
    start_ns: int
    end_ns: int
    links: list[Context]
    message_id: str
    batch: int
    is_sampled: bool  # so that others like it may be missing
    dropped_links: int
    path: str
    line: int


@dataclass
class _Parsed:
    spans: dict[Context, _Span] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    repeated: int = 0


def is_log(head: bytes) -> bool:
    """Return whether a text may be such a file, from how it begins; metrics and logs may stand between the spans.

    >>> is_log(b'{"resourceSpans":[]}'), is_log(b'{"resourceMetrics":[]}'), is_log(b'{"host": "a"}')
    (True, False, False)
    """
    return bool(_BEGINS.match(head) and _SPANS.search(head.removeprefix(b"\xef\xbb\xbf")))


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no message, OSError.  Cost: about 50 us, and 3 kB of memory, per span."""
    parsed = _Parsed(findings=list(source.findings))
    for path in source.paths:
        _parse(path, parsed)
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
    findings = [
        *_untold(messages, parsed.spans),
        *_times(by_process, labels),
        *_threads(by_process, labels, parsed.spans),
    ]
    logs = _logs(by_process, indices, messages)
    tables = tuple(log.table(source.name, index, columns) for index, log in enumerate(logs))
    return Run(source, tuple(labels), tables, findings=(*parsed.findings, *findings))


# ---- the files ----


def _parse(path: str, parsed: _Parsed) -> None:
    data, cut = content(path)
    text = decoded(data)
    parsed.findings += [cut] if cut else []
    bad = BadLines(path, "a request with resourceSpans")
    lines = text.split("\n")
    for number, line in [(1, text)] if _is_one_object(lines) else enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                what = f"{path}:{number}: the last line, {line[:40]!r}, was cut, and left out"
                parsed.findings.append(Finding("truncated", what, path=path, line=number))
            else:
                bad.add(number, line, f"no JSON: {error}")
            continue
        _take(request, path, number, parsed, bad)
    parsed.findings += bad.findings()


def _is_one_object(lines: Sequence[str]) -> bool:
    """Return whether the file is one request over many lines, as people print it to read it."""
    return lines[0].strip() == "{"


def _take(request: Any, path: str, line: int, parsed: _Parsed, bad: BadLines) -> None:
    """Take the spans of a request; what is wrong with one of them does not spoil the others."""
    if not isinstance(request, dict) or not request.keys() & {"resourceSpans", "resourceLogs", "resourceMetrics"}:
        bad.add(line, json.dumps(request))
        return
    try:
        for resource in _dicts(request.get("resourceSpans")):
            process = _identity(_attributes((resource.get("resource") or {}).get("attributes")))
            for scope in _dicts(resource.get("scopeSpans")):
                for raw in _dicts(scope.get("spans")):
                    try:
                        span = _span(raw, process, path, line)
                    except _Bad as error:
                        bad.add(line, json.dumps(raw), str(error))
                        continue
                    parsed.repeated += span.context in parsed.spans
                    parsed.spans.setdefault(span.context, span)
    except (_Bad, AttributeError) as error:
        bad.add(line, json.dumps(request), str(error) if isinstance(error, _Bad) else "a resource that is no object")


def _dicts(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise _Bad(f"{json.dumps(value)[:40]}: expected a list of objects")
    return value


def _attributes(raw: Any) -> dict[str, str]:
    """Return attributes as texts; values that are lists or objects are left out."""
    texts = {}
    for one in _dicts(raw):
        value = one.get("value")
        if isinstance(value, dict):
            for kind in ("stringValue", "intValue", "boolValue", "doubleValue"):
                if value.get(kind) is not None and not isinstance(value[kind], (dict, list)):
                    texts[str(one.get("key"))] = str(value[kind])
    return texts


def _identity(attributes: Mapping[str, str]) -> tuple[str, ...]:
    """Return what tells an instance from others: its service, and then "" if nothing else does."""
    service = attributes.get("service.name") or "unknown_service"
    if attributes.get("service.namespace"):
        service = f"{attributes['service.namespace']}/{service}"
    for keys in (_INSTANCE, _PLACE):
        parts = [attributes[key] for key in keys if attributes.get(key)]
        if parts:
            return service, ":".join(parts)
    return service, ""


def _span(raw: Mapping[str, Any], process: tuple[str, ...], path: str, line: int) -> _Span:
    context = _context(raw.get("traceId"), raw.get("spanId"))
    if context is None:
        raise _Bad("a span without traceId and spanId")
    attributes = _attributes(raw.get("attributes"))
    operation = attributes.get("messaging.operation.type") or attributes.get("messaging.operation", "")
    links = [_context(link.get("traceId"), link.get("spanId")) for link in _dicts(raw.get("links"))]
    start_ns, end_ns = _time(raw, "startTimeUnixNano"), _time(raw, "endTimeUnixNano")
    count = attributes.get("messaging.batch.message_count", "")
    state = raw.get("traceState")
    dropped = raw.get("droppedLinksCount")
    return _Span(
        context,
        _context(raw.get("traceId"), raw.get("parentSpanId")),
        process,
        _kind(raw.get("kind")),
        _OPERATIONS.get(operation.lower(), operation.lower()),
        start_ns,
        max(start_ns, end_ns),
        [link for link in links if link is not None],
        attributes.get("messaging.message.id", ""),
        int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 1,
        isinstance(state, str) and bool(re.search(r"\bth:(?!0\b)", state)),
        dropped if isinstance(dropped, int) else 0,
        path,
        line,
    )


def _context(trace: Any, span: Any) -> Context | None:
    """Return a context; both names are texts, in hexadecimal or in whatever an exporter writes them."""
    if not (isinstance(trace, str) and isinstance(span, str) and trace.strip("0") and span.strip("0")):
        return None
    is_hex = re.fullmatch(r"[0-9a-fA-F]{32}", trace) and re.fullmatch(r"[0-9a-fA-F]{16}", span)
    return (trace.lower(), span.lower()) if is_hex else (trace, span)


def _kind(value: Any) -> int:
    if isinstance(value, str):
        return _KINDS.get(value.removeprefix("SPAN_KIND_"), 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _time(raw: Mapping[str, Any], name: str) -> int:
    value = raw.get(name)
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not 0 < int(text) < _TIME_MAX:
        raise _Bad(f"{name} {json.dumps(value)[:40]}: expected nanoseconds since 1970")
    return int(text)


def _processes(spans: Iterable[_Span], findings: list[Finding]) -> dict[tuple[str, ...], str]:
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
    span: _Span


class _Messages:
    """What the spans tell of messages: who sent and who got which, and when."""

    def __init__(self, spans: Sequence[_Span], findings: list[Finding]) -> None:
        self._spans = {span.context: span for span in spans}
        self.sends: list[_Event] = []
        self.deliveries: list[_Event] = []
        self.unlinked: list[_Span] = []
        self.missing: dict[Context, _Span] = {}  # contexts of messages whose send stands nowhere
        operations = {span.context: _operation(span) for span in spans}
        # Dicts, which keep the order of the files: sets would put events at equal times into another order each time.
        self._creates = {context: None for context, operation in operations.items() if operation == "create"}
        self._send([span for span in spans if operations[span.context] == "send"], findings)
        self.sent = {event.message for event in self.sends}
        self._getting = {
            context: None for context, operation in operations.items() if operation in ("receive", "process")
        }
        self._deliver({span.context: operations[span.context] for span in spans})

    def _send(self, sends: Sequence[_Span], findings: list[Finding]) -> None:
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
        getting: dict[tuple[tuple[str, ...], Context], list[_Span]] = {}
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

    def _is_empty(self, span: _Span) -> bool:
        """Return whether a span received nothing that it tells of: it waited in vain, or what processes it tells."""
        return (
            not span.links
            and (span.parent is None or span.parent in self._spans)
            and not self._messages_of(span, set())
        )

    def _messages_of(self, span: _Span, passed: set[Context]) -> list[Context]:
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

    def _stands_in(self, span: _Span, outer: _Span) -> bool:
        return outer.context in ancestors(span, self._spans)


def ancestors(span: _Span, spans: Mapping[Context, _Span]) -> Iterator[Context]:
    """Give the contexts of the parent of a span, of its parent, and so on, within its process."""
    passed = {span.context}
    parent = span.parent
    while parent is not None and parent not in passed and parent in spans and spans[parent].process == span.process:
        yield parent
        passed.add(parent)
        parent = spans[parent].parent


def _operation(span: _Span) -> str:
    """Return what a span does with messages: "create", "send", "receive", "process", or nothing that counts."""
    if span.operation in ("create", "send", "receive", "process", "settle"):
        return span.operation
    return {_PRODUCER: "send", _CONSUMER: "process"}.get(span.kind, "")


def _at(span: _Span, text: str) -> str:
    return f"{span.path}:{span.line}: {text}"


# ---- what spans don't tell ----


def _untold(messages: _Messages, spans: Mapping[Context, _Span]) -> Iterator[Finding]:
    text = "spans tell no destinations: those who got a message are taken as such, so no loss can be told"
    yield Finding("no-destinations", text, len(messages.sends), is_error=False, may_hide=("lost",))
    got = {event.message for event in messages.deliveries}
    never = [event for event in messages.sends if event.message not in got]
    if never:
        first = never[0].span
        text = _at(first, "sent, and no span got it: nobody was meant to, it was lost, or it is still under way")
        yield Finding("never-consumed", text, len(never), first.path, first.line, is_error=False, may_hide=("lost",))
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
        yield Finding("unlinked", text, len(messages.unlinked), first.path, first.line, may_hide=every)
    sampled = [span for span in spans.values() if span.is_sampled]
    if sampled:
        text = _at(sampled[0], "sampled (tracestate): messages that were not are not seen")
        yield Finding("sampled", text, len(sampled), sampled[0].path, sampled[0].line, is_error=False, may_hide=_PASTS)
    dropped = [span for span in spans.values() if span.dropped_links]
    if dropped:
        text = _at(dropped[0], "links were dropped, and with them messages that it got")
        yield Finding("unlinked", text, len(dropped), dropped[0].path, dropped[0].line, may_hide=_ORDERS)
    yield from _other_causes(spans)


def _other_causes(spans: Mapping[Context, _Span]) -> Iterator[Finding]:
    """Tell of calls between processes: causes, too, and no messages."""
    calls = [
        span
        for span in spans.values()
        if span.kind != _CONSUMER and span.parent and spans.get(span.parent, span).process != span.process
    ]
    if calls:
        text = _at(calls[0], "called by another process: such calls are no messages, so causes may travel unseen")
        yield Finding("calls", text, len(calls), calls[0].path, calls[0].line, is_error=False, may_hide=("causal",))


def _times(by_process: Sequence[Sequence[_Event]], labels: Sequence[str]) -> Iterator[Finding]:
    """Tell of events whose order the times don't say; and that these are of clocks on the wall."""
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
    by_process: Sequence[Sequence[_Event]], labels: Sequence[str], spans: Mapping[Context, _Span]
) -> Iterator[Finding]:
    """Tell of processes that do several things at once: these have an order in time, and no program order."""
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


def _overlapping(spans: Iterable[_Span]) -> list[_Span]:
    """Return those that start before one that started earlier has ended."""
    overlapping, end_ns = [], 0
    for span in sorted({span.context: span for span in spans}.values(), key=lambda span: span.start_ns):
        if span.start_ns < end_ns:
            overlapping.append(span)
        end_ns = max(end_ns, span.end_ns)
    return overlapping


def _beside(sends: Sequence[_Span], handlers: Sequence[_Span], spans: Mapping[Context, _Span]) -> list[_Span]:
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
    by_process: Sequence[Sequence[_Event]], indices: Mapping[tuple[str, ...], int], messages: _Messages
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
    for mine in by_process:
        log = Log()
        for event in mine:
            label = event.span.message_id if event.message == event.span.context or event.kind == Kind.DELIVER else ""
            others: dict[str, Any] = {"time_ns": event.time_ns, "label": label or None}
            if event.kind == Kind.SEND:
                others |= {"destinations": sorted(to.get(event.message, ())), "end_ns": event.span.end_ns}
            log.add(event.kind, numbers[event.message], **others)
        logs.append(log)
    return logs
