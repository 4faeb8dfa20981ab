# SPDX-License-Identifier: Apache-2.0
"""Spans as Jaeger gives them: the JSON of its API and of its page, and the documents that it keeps in Elasticsearch.

Tags are attributes, and those of a process are of its resource; `span.kind` is the kind.  Of the references, CHILD_OF
within the trace names the parent, and FOLLOWS_FROM is a link.  `busq.trace.otlp` makes events of them.
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
    dicts,
    identity,
    names_in,
    parse,
    shown,
    span_of,
    times_in_microseconds,
)
from busq.trace.text import BadLines

__all__ = ["is_log", "read"]

_WRAPPERS = frozenset({"hits", "_source"})  # of an answer of Elasticsearch, and of each document in it
_ACTIONS = frozenset({"index", "create"})  # lines before documents that are to be put into an index
_NAMED = re.compile(rb'"(traceID|spanID|operationName)"\s*:')


def is_log(head: bytes) -> bool:
    """Return whether a text may be such a file, from how it begins.

    >>> is_log(b'{"data":[{"traceID":"1","spans":[{"spanID":"2","operationName":"x"'), is_log(b'{"data":[]}')
    (True, False)
    """
    return names_in(head, _NAMED) == 3


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no message, OSError.  Cost: as that of `busq.trace.otlp`."""
    return read_with(source, columns, _parse)


def _parse(path: str, parsed: Spans) -> None:
    parse(path, parsed, "traces of Jaeger, with spans and processes", _spans_in)


def _spans_in(document: Any, path: str, line: int, bad: BadLines) -> Iterator[Span]:
    """Give the spans of a document: an answer of the API or of Elasticsearch, a trace, a span, or a list of such."""
    if isinstance(document, list):
        for each in document:
            yield from _spans_in(each, path, line, bad)
        return
    if isinstance(document, dict) and document.keys() & _WRAPPERS and "spanID" not in document:
        yield from _spans_in(document.get("hits", document.get("_source")), path, line, bad)
        return
    if isinstance(document, dict) and len(document) == 1 and document.keys() <= _ACTIONS:
        return
    if not isinstance(document, dict) or not document.keys() & {"data", "spans", "spanID"}:
        bad.add(line, json.dumps(document))
        return
    try:
        for trace in dicts(document.get("data")):
            yield from _spans_in(trace, path, line, bad)
        processes = document.get("processes") or {}
        for raw in [document] if "spanID" in document else dicts(document.get("spans")):
            try:
                span = _span(raw, processes, path, line)
            except BadSpan as error:
                bad.add(line, json.dumps(raw), str(error))
                continue
            yield span
    except BadSpan as error:
        bad.add(line, json.dumps(document), str(error))


def _span(raw: Mapping[str, Any], processes: Any, path: str, line: int) -> Span:
    process = raw.get("process") or (processes.get(raw.get("processID")) if isinstance(processes, dict) else None)
    if not isinstance(process, dict):
        raise BadSpan(f"processID {shown(raw.get('processID'))}: expected one of the processes of its trace")
    tags = _tags(raw)
    times = times_in_microseconds(raw, "startTime", raw.get("duration"))
    parent, links = None, []
    for reference in dicts(raw.get("references")):
        context = context_of(reference.get("traceID"), reference.get("spanID"))
        is_parent = reference.get("refType") == "CHILD_OF" and reference.get("traceID") == raw.get("traceID")
        if is_parent and parent is None:
            parent = context
        else:
            links.append(context)
    if parent is None and raw.get("parentSpanID"):  # as Jaeger wrote it before there were references
        parent = context_of(raw.get("traceID"), raw["parentSpanID"])
    service = {"service.name": str(process.get("serviceName") or "")}
    return span_of(
        context_of(raw.get("traceID"), raw.get("spanID")),
        parent,
        identity(_tags(process) | service),
        tags.get("span.kind"),
        times,
        links,
        tags,
        (path, line),
        is_sampled=tags.get("sampler.type", "const") not in ("const", "remote") and tags.get("sampler.param") != "1",
    )


def _tags(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a span or a process; Elasticsearch may have them as fields of `tag`, with @ for dots."""
    fields = raw.get("tag")
    flat = fields.items() if isinstance(fields, dict) else ()
    return _texts([{"key": key.replace("@", "."), "value": value} for key, value in flat]) | _texts(raw.get("tags"))


def _texts(raw: Any) -> dict[str, str]:
    return {
        str(tag.get("key")): str(tag["value"])
        for tag in dicts(raw)
        if tag.get("value") is not None and not isinstance(tag["value"], (dict, list))
    }
