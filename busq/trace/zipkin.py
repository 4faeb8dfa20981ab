# SPDX-License-Identifier: Apache-2.0
"""Spans of Zipkin, version 2: lists of them, as exporters and `/api/v2/traces` write them; a line or a document each.

Tags are attributes.  There are no links: what is got names its message by `parentId` alone.  Two halves of a call that
share their name (`shared`) are two spans, the second one a child of the first.  `busq.trace.otlp` makes events of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from busq.trace.otlp import read_with
from busq.trace.run import Run, Source
from busq.trace.spans import (
    BadSpan,
    Span,
    Spans,
    context_of,
    identity,
    names_in,
    parse,
    shown,
    span_of,
    times_in_microseconds,
)
from busq.trace.text import BadLines

__all__ = ["is_log", "read"]

_NAMED = re.compile(rb'"(traceId|id|localEndpoint|binaryAnnotations)"\s*:')


def is_log(head: bytes) -> bool:
    """Return whether a text may be such a file, from how it begins.

    >>> is_log(b'[{"traceId":"1","id":"2","localEndpoint":{"serviceName":"shop"}}]'), is_log(b'[{"id": 1}]')
    (True, False)
    """
    return names_in(head, _NAMED) >= 3


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no message, OSError.  Cost: as that of `busq.trace.otlp`."""
    return read_with(source, columns, _parse)


def _parse(path: str, parsed: Spans) -> None:
    parse(path, parsed, "spans of Zipkin, version 2", _spans_in)


def _spans_in(document: Any, path: str, line: int, bad: BadLines) -> Iterator[Span]:
    """Give the spans of a document: a span, or a list of such, or of lists."""
    if isinstance(document, list):
        for each in document:
            yield from _spans_in(each, path, line, bad)
        return
    try:
        if not isinstance(document, dict):
            raise BadSpan("no span")
        span = _span(document, path, line)
    except BadSpan as error:
        bad.add(line, json.dumps(document), str(error))
        return
    yield span


def _span(raw: Mapping[str, Any], path: str, line: int) -> Span:
    if "binaryAnnotations" in raw:
        raise BadSpan("binaryAnnotations are of version 1: expected version 2, as /api/v2/traces gives it")
    tags = {name: str(value) for name, value in _object(raw, "tags").items()}
    endpoint = {name: str(value) for name, value in _object(raw, "localEndpoint").items()}
    address = ":".join(endpoint[key] for key in ("ipv4", "ipv6", "port") if endpoint.get(key))
    times = times_in_microseconds(raw, "timestamp", raw.get("duration") or 0)
    context = context_of(raw.get("traceId"), raw.get("id"))
    parent = context_of(raw.get("traceId"), raw.get("parentId"))
    if raw.get("shared") is True and context is not None:
        context, parent = (context[0], f"{context[1]}, shared"), context
    return span_of(
        context,
        parent,
        identity(tags | {"service.name": endpoint.get("serviceName", "")}, address),
        raw.get("kind"),
        times,
        [],
        tags,
        (path, line),
    )


def _object(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = raw.get(name) or {}
    if not isinstance(value, dict):
        raise BadSpan(f"{name} {shown(value)}: expected an object")
    return value
