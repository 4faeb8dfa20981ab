# SPDX-License-Identifier: Apache-2.0
"""Spans of services, whatever format they are written in: what `busq.trace.otlp` makes events of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq.trace.finding import Finding
from busq.trace.text import BadLines, content, decoded

__all__ = [
    "CONSUMER",
    "PRODUCER",
    "BadSpan",
    "Context",
    "Span",
    "Spans",
    "context_of",
    "dicts",
    "identity",
    "names_in",
    "parse",
    "shown",
    "span_of",
    "time_of",
    "times_in_microseconds",
]

Context = tuple[str, str]  # trace and span

_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
PRODUCER, CONSUMER = 4, 5
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
_CLIENT = ("client-uuid",)  # of clients of Jaeger
_PLACE = ("k8s.pod.uid", "k8s.pod.name", "container.id", "host.id", "host.name", "hostname", "ip", "process.pid")
_TIME_MAX = 1 << 63
_MICROSECOND_NS = 1000


class BadSpan(Exception):
    """A span that means nothing; the text gives the reason."""


@dataclass
class Span:
    """A span, as far as it matters: `process` is the instance that made it, `links` the contexts that it links to."""

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
class Spans:
    """The spans of all files by context, what is wrong with the files, and how many spans came again."""

    spans: dict[Context, Span] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    repeated: int = 0


def parse(
    path: str, parsed: Spans, expected: str, spans_in: Callable[[Any, str, int, BadLines], Iterator[Span]]
) -> None:
    """Add the spans of a file; OSError.

    Parameters: `expected`, of a line, in words; `spans_in(document, path, line, bad)` gives the spans in a line, or in
    all of a file that is one document over many lines, and adds what is none to `bad`.
    """
    data, cut = content(path)
    text = decoded(data)
    parsed.findings += [cut] if cut else []
    bad = BadLines(path, expected)
    lines = text.split("\n")
    for number, line in [(1, text)] if _is_one_document(text, lines[0]) else enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                what = f"{path}:{number}: the last line, {line[:40]!r}, was cut, and left out"
                parsed.findings.append(Finding("truncated", what, path=path, line=number))
            else:
                bad.add(number, line, f"no JSON: {error}")
            continue
        for span in spans_in(document, path, number, bad):
            parsed.repeated += span.context in parsed.spans
            parsed.spans.setdefault(span.context, span)
    parsed.findings += bad.findings()


def _is_one_document(text: str, first: str) -> bool:
    """Return whether a text is one document over many lines, as people print it to read it."""
    return first.strip() in ("{", "[") or (not _is_json(first) and _is_json(text))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def dicts(value: Any) -> list[dict[str, Any]]:
    """Return a list of objects, empty for null; BadSpan for anything else."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise BadSpan(f"{shown(value)}: expected a list of objects")
    return value


def shown(value: Any) -> str:
    """Return how a value begins, for a text about it."""
    return json.dumps(value)[:40]


def identity(attributes: Mapping[str, str], address: str = "") -> tuple[str, ...]:
    """Return the identity of an instance: its service, and what else is known, or its address, or "".

    >>> identity({"service.name": "shop", "host.name": "a"}), identity({}, "10.0.0.1:80")
    (('shop', 'a'), ('unknown_service', '10.0.0.1:80'))
    """
    service = attributes.get("service.name") or "unknown_service"
    if attributes.get("service.namespace"):
        service = f"{attributes['service.namespace']}/{service}"
    for keys in (_INSTANCE, _CLIENT, _PLACE):
        parts = [attributes[key] for key in keys if attributes.get(key)]
        if parts:
            return service, ":".join(parts)
    return service, address


def span_of(
    context: Context | None,
    parent: Context | None,
    process: tuple[str, ...],
    kind: Any,
    times: tuple[int, int],
    links: Sequence[Context | None],
    attributes: Mapping[str, str],
    where: tuple[str, int],
    *,
    is_sampled: bool = False,
    dropped_links: Any = 0,
) -> Span:
    """Return a span; BadSpan if it has no context.

    Parameters: `kind`, its name or number; `times`, when it began and ended, in nanoseconds; `where`, path and line;
    others as in `Span`.
    """
    if context is None:
        raise BadSpan("a span without the names of its trace and of itself")
    operation = attributes.get("messaging.operation.type") or attributes.get("messaging.operation", "")
    count = attributes.get("messaging.batch.message_count", "")
    return Span(
        context,
        parent,
        process,
        _kind(kind),
        _OPERATIONS.get(operation.lower(), operation.lower()),
        times[0],
        max(times),
        [link for link in links if link is not None],
        attributes.get("messaging.message.id", ""),
        int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 1,
        is_sampled,
        dropped_links if isinstance(dropped_links, int) else 0,
        *where,
    )


def context_of(trace: Any, span: Any) -> Context | None:
    """Return a context; both names are texts, in hexadecimal or in whatever an exporter writes them."""
    if not (isinstance(trace, str) and isinstance(span, str) and trace.strip("0") and span.strip("0")):
        return None
    is_hex = re.fullmatch(r"[0-9a-fA-F]{32}", trace) and re.fullmatch(r"[0-9a-fA-F]{16}", span)
    return (trace.lower(), span.lower()) if is_hex else (trace, span)


def _kind(value: Any) -> int:
    if isinstance(value, str):
        return _KINDS.get(value.removeprefix("SPAN_KIND_").upper(), 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def time_of(raw: Mapping[str, Any], name: str, unit_ns: int, unit: str) -> int:
    """Return a time since 1970 in nanoseconds, of a field that counts so many of them; BadSpan for anything else."""
    value = raw.get(name)
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not 0 < int(text) * unit_ns < _TIME_MAX:
        raise BadSpan(f"{name} {shown(value)}: expected {unit} since 1970")
    return int(text) * unit_ns


def times_in_microseconds(raw: Mapping[str, Any], begin: str, duration: Any) -> tuple[int, int]:
    """Return when a span began, by that field, and ended, in nanoseconds; BadSpan for anything else."""
    begin_ns = time_of(raw, begin, _MICROSECOND_NS, "microseconds")
    if not isinstance(duration, int) or duration < 0:
        raise BadSpan(f"duration {shown(duration)}: expected microseconds")
    return begin_ns, begin_ns + _MICROSECOND_NS * duration


def names_in(head: bytes, names: re.Pattern[bytes]) -> int:
    """Return how many different names that an expression finds stand in the beginning of a JSON text; 0 of another."""
    is_json = head.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"[")
    return len(set(names.findall(head))) if is_json else 0
