# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry, read from OTLP in JSON: what `busq.trace.otlp` makes events of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from busq.trace.spans import BadSpan, Span, Spans, context_of, dicts, identity, span_of, time_of
from busq.trace.spans import parse as parse_with
from busq.trace.text import BadLines

__all__ = ["parse"]

_UNDERSCORE = re.compile("_([a-z])")


def parse(path: str, parsed: Spans) -> None:
    """Add the spans of a file; OSError."""
    parse_with(path, parsed, "a request with resourceSpans", _spans_in)


def _spans_in(request: Any, path: str, line: int, bad: BadLines) -> Iterator[Span]:
    """Give the spans of a request; what is wrong with one of them does not spoil the others."""
    if isinstance(request, dict) and any("_" in key for key in request):
        request = _in_camel_case(request)
    if not isinstance(request, dict) or not request.keys() & {"resourceSpans", "resourceLogs", "resourceMetrics"}:
        bad.add(line, json.dumps(request))
        return
    try:
        for resource in dicts(request.get("resourceSpans")):
            process = identity(_attributes((resource.get("resource") or {}).get("attributes")))
            for scope in dicts(resource.get("scopeSpans")):
                for raw in dicts(scope.get("spans")):
                    try:
                        span = _span(raw, process, path, line)
                    except BadSpan as error:
                        bad.add(line, json.dumps(raw), str(error))
                        continue
                    yield span
    except (BadSpan, AttributeError) as error:
        bad.add(line, json.dumps(request), str(error) if isinstance(error, BadSpan) else "a resource that is no object")


def _in_camel_case(value: Any) -> Any:
    """Return a value whose fields have their names in JSON, as `traceId`, in the place of those in Protobuf.

    >>> _in_camel_case({"scope_spans": [{"trace_id": "a_b", "start_time_unix_nano": 7}]})
    {'scopeSpans': [{'traceId': 'a_b', 'startTimeUnixNano': 7}]}
    """
    if isinstance(value, list):
        return [_in_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {_UNDERSCORE.sub(lambda found: found[1].upper(), key): _in_camel_case(its) for key, its in value.items()}


def _attributes(raw: Any) -> dict[str, str]:
    """Return attributes as texts; values that are lists or objects are left out."""
    texts = {}
    for one in dicts(raw):
        value = one.get("value")
        if isinstance(value, dict):
            for kind in ("stringValue", "intValue", "boolValue", "doubleValue"):
                if value.get(kind) is not None and not isinstance(value[kind], (dict, list)):
                    texts[str(one.get("key"))] = str(value[kind])
    return texts


def _span(raw: Mapping[str, Any], process: tuple[str, ...], path: str, line: int) -> Span:
    trace, state = raw.get("traceId"), raw.get("traceState")
    return span_of(
        context_of(trace, raw.get("spanId")),
        context_of(trace, raw.get("parentSpanId")),
        process,
        raw.get("kind"),
        (_time(raw, "startTimeUnixNano"), _time(raw, "endTimeUnixNano")),
        [context_of(link.get("traceId"), link.get("spanId")) for link in dicts(raw.get("links"))],
        _attributes(raw.get("attributes")),
        (path, line),
        is_sampled=isinstance(state, str) and bool(re.search(r"\bth:(?!0\b)", state)),
        dropped_links=raw.get("droppedLinksCount"),
    )


def _time(raw: Mapping[str, Any], name: str) -> int:
    return time_of(raw, name, 1, "nanoseconds")
