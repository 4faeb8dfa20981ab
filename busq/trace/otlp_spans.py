# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry, read from OTLP in JSON: what `busq.trace.otlp` makes events of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq.trace.finding import Finding
from busq.trace.text import BadLines, content, decoded

__all__ = ["CONSUMER", "PRODUCER", "Context", "Span", "Spans", "parse"]

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
_PLACE = ("k8s.pod.uid", "k8s.pod.name", "container.id", "host.id", "host.name", "process.pid")
_TIME_MAX = 1 << 63


class _Bad(Exception):
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


def parse(path: str, parsed: Spans) -> None:
    """Add the spans of a file; OSError."""
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


def _take(request: Any, path: str, line: int, parsed: Spans, bad: BadLines) -> None:
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
    """Return the identity of an instance: its service, and what else is known, or ""."""
    service = attributes.get("service.name") or "unknown_service"
    if attributes.get("service.namespace"):
        service = f"{attributes['service.namespace']}/{service}"
    for keys in (_INSTANCE, _PLACE):
        parts = [attributes[key] for key in keys if attributes.get(key)]
        if parts:
            return service, ":".join(parts)
    return service, ""


def _span(raw: Mapping[str, Any], process: tuple[str, ...], path: str, line: int) -> Span:
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
    return Span(
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
