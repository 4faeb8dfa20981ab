# SPDX-License-Identifier: Apache-2.0
"""Spans as Jaeger and Zipkin give them: the same verdicts as of the same spans in OTLP, as far as they hold as much."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

from samples import Spans

import busq
from busq import trace
from busq.audit import RunAudit
from busq.trace import TraceError

KINDS = ["", "internal", "server", "client", "producer", "consumer"]
Raw = dict[str, Any]


def answered() -> Spans:
    """A shop sends two orders to a store, which answers each."""
    spans = Spans()
    for start in (0, 100):
        order = spans.span("shop", "send", start + 1, start + 2)
        handled = spans.span("store", "process", start + 10, start + 20, parent=order)
        answer = spans.span("store", "send", start + 12, start + 13, parent=handled)
        spans.span("shop", "process", start + 30, start + 31, parent=answer)
    return spans


def each(spans: Spans) -> list[tuple[Raw, dict[str, str]]]:
    """The spans of a sample with the attributes of their resources."""
    found = []
    for request in spans.requests:
        (resource,) = request["resourceSpans"]
        texts = {one["key"]: next(iter(one["value"].values())) for one in resource["resource"]["attributes"]}
        found.append((resource["scopeSpans"][0]["spans"][0], texts))
    return found


def tags(texts: dict[str, Any]) -> list[Raw]:
    return [{"key": key, "type": "string", "value": value} for key, value in texts.items()]


def of_jaeger(spans: Spans) -> list[Raw]:
    """Traces as Jaeger's API has them: processes name services, references are links and parents."""
    traces: dict[str, Raw] = {}
    for raw, resource in each(spans):
        its = traces.setdefault(raw["traceId"], {"traceID": raw["traceId"], "spans": [], "processes": {}})
        name = f"p{len(its['processes']) + 1}"
        others = {key: value for key, value in resource.items() if key != "service.name"}
        its["processes"][name] = {"serviceName": resource["service.name"], "tags": tags(others)}
        parents = [("CHILD_OF", raw["traceId"], raw["parentSpanId"])] if "parentSpanId" in raw else []
        links = [("FOLLOWS_FROM", link["traceId"], link["spanId"]) for link in raw.get("links", [])]
        begin = int(raw["startTimeUnixNano"]) // 1000
        its["spans"].append(
            {
                "traceID": raw["traceId"],
                "spanID": raw["spanId"],
                "operationName": raw["name"],
                "references": [
                    dict(zip(("refType", "traceID", "spanID"), one, strict=True)) for one in parents + links
                ],
                "startTime": begin,
                "duration": int(raw["endTimeUnixNano"]) // 1000 - begin,
                "tags": tags(texts_of(raw) | {"span.kind": KINDS[raw["kind"]], "internal.span.format": "otlp"}),
                "logs": [],
                "processID": name,
                "warnings": None,
            }
        )
    return list(traces.values())


def documents(spans: Spans) -> list[Raw]:
    """Spans as Jaeger keeps them in Elasticsearch: each with its process."""
    return [
        {key: value for key, value in span.items() if key != "processID"} | {"process": one["processes"][its]}
        for one in of_jaeger(spans)
        for span in one["spans"]
        for its in [span["processID"]]
    ]


def of_zipkin(spans: Spans) -> list[Raw]:
    """Spans as exporters to Zipkin write them: the resource stands in tags, links nowhere."""
    found = []
    for raw, resource in each(spans):
        begin = int(raw["startTimeUnixNano"]) // 1000
        span = {"traceId": raw["traceId"], "id": raw["spanId"], "name": raw["name"], "timestamp": begin}
        span |= {"duration": int(raw["endTimeUnixNano"]) // 1000 - begin}
        span |= {"localEndpoint": {"serviceName": resource["service.name"]}, "kind": KINDS[raw["kind"]].upper()}
        span |= {"parentId": raw["parentSpanId"]} if "parentSpanId" in raw else {}
        found.append(span | {"tags": texts_of(raw) | resource})
    return found


def texts_of(raw: Raw) -> dict[str, str]:
    return {one["key"]: str(next(iter(one["value"].values()))) for one in raw["attributes"]}


def written(path: Path, document: Any, indent: int | None = None) -> Path:
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=False))
    return path


def api(spans: Spans) -> Raw:
    return {"data": of_jaeger(spans), "total": 0, "limit": 0, "offset": 0, "errors": None}


def judged(path: Path) -> RunAudit:
    (run,) = busq.audit.audit(path).runs
    return run


def told(run: RunAudit) -> Any:
    checks = {name: (check.verdict, check.count) for name, check in run.checks.items()}
    return run.processes, run.messages, run.deliveries, checks, sorted(finding.kind for finding in run.findings)


def drawn(seed: int, by_parent: bool) -> Spans:
    """Services that send to each other; some messages are got late, twice, never, or without a send."""
    rng = random.Random(seed)
    spans, time, sent = Spans(), 0, []
    for _ in range(rng.randint(1, 30)):
        time += rng.choice([0, 1, 5])
        service = rng.choice(["shop", "störe", "b" * 200])
        if sent and rng.random() < 0.6:
            message = rng.choice(sent)
            its: Raw = {"parent": message} if by_parent else {"links": (message,)}
            spans.span(service, rng.choice(["process", "process", "receive"]), time, time + rng.randint(0, 3), **its)
        else:
            sent.append(spans.span(service, rng.choice(["send", "publish"]), time, time + rng.randint(0, 3)))
    if rng.random() < 0.3:
        del spans.requests[rng.randrange(len(spans.requests))]
    return spans


@pytest.mark.parametrize("form", ["jaeger", "zipkin"])
@pytest.mark.parametrize("seed", range(40))
def test_the_same_spans_are_judged_as_in_otlp(tmp_path: Path, form: str, seed: int) -> None:
    spans = drawn(seed, by_parent=form == "zipkin" or seed % 2 == 0)
    (tmp_path / "a.json").write_text(spans.text())
    written(tmp_path / "b.json", api(spans) if form == "jaeger" else of_zipkin(spans))
    try:
        expected = told(judged(tmp_path / "a.json"))
    except TraceError:
        with pytest.raises(TraceError):
            judged(tmp_path / "b.json")
        return
    found = judged(tmp_path / "b.json")
    assert found.format == form
    assert told(found) == expected


FORMS: dict[str, Callable[[Path, Spans], Any]] = {
    "API": lambda path, spans: written(path, api(spans)),
    "printed": lambda path, spans: written(path, api(spans), indent=4),
    "traces": lambda path, spans: written(path, of_jaeger(spans), indent=2),
    "Elasticsearch": lambda path, spans: path.write_text("".join(f"{json.dumps(one)}\n" for one in documents(spans))),
    "a bulk of Elasticsearch": lambda path, spans: path.write_text(
        "".join(f'{{"index": {{"_index": "jaeger"}}}}\n{json.dumps(one)}\n' for one in documents(spans))
    ),
    "a search in Elasticsearch": lambda path, spans: written(
        path, {"took": 1, "hits": {"total": {"value": 4}, "hits": [{"_source": one} for one in documents(spans)]}}
    ),
    "tags as fields": lambda path, spans: path.write_text(
        "".join(
            json.dumps(one | {"tags": [], "tag": {tag["key"].replace(".", "@"): tag["value"] for tag in one["tags"]}})
            + "\n"
            for one in documents(spans)
        )
    ),
    "before there were references": lambda path, spans: path.write_text(
        "".join(
            json.dumps(one | {"references": [], "parentSpanID": "".join(r["spanID"] for r in one["references"])}) + "\n"
            for one in documents(spans)
        )
    ),
    "packed": lambda path, spans: path.write_bytes(gzip.compress(json.dumps(api(spans)).encode())),
    "Zipkin": lambda path, spans: written(path, of_zipkin(spans)),
    "Zipkin's API": lambda path, spans: written(path, [of_zipkin(spans)], indent=2),
    "a request each": lambda path, spans: path.write_text(
        "".join(json.dumps([span]) + "\n" for span in of_zipkin(spans))
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(tmp_path: Path, form: str) -> None:
    spans = Spans()
    first, second = (spans.span("shop", "send", at, at + 1) for at in (10, 20))
    for at, message in ((30, second), (40, first)):
        spans.span("store", "process", at, at + 1, parent=message)
    FORMS[form](tmp_path / "traces.json", spans)
    run = judged(tmp_path)
    assert run.format == ("zipkin" if "ipkin" in form or form == "a request each" else "jaeger")
    assert (run.processes, run.messages, run.deliveries) == (("shop", "store"), 2, 2)
    assert run.checks["fifo"].count == 1
    assert run.checks["lost"].verdict == "unknown"


def test_spans_of_one_trace_in_two_answers_count_once(tmp_path: Path) -> None:
    for name in ("shop", "store"):
        written(tmp_path / f"{name}.json", api(answered()))
    run = judged(tmp_path)
    assert (run.messages, run.deliveries) == (4, 4)
    assert "repeated-spans" in [finding.kind for finding in run.findings]


def test_halves_of_a_call_that_share_a_name_are_a_call(tmp_path: Path) -> None:
    spans = of_zipkin(answered())
    spans[0] |= {"parentId": "7" * 16, "kind": "PRODUCER"}
    base = {"traceId": "a" * 32, "id": "8" * 16, "timestamp": 1, "duration": 1}
    spans += [
        base | {"kind": "CLIENT", "localEndpoint": {"serviceName": "till", "ipv4": "10.0.0.1"}},
        base | {"kind": "SERVER", "localEndpoint": {"serviceName": "shop"}, "shared": True},
    ]
    written(tmp_path / "a.json", spans)
    run = judged(tmp_path)
    (call,) = [finding for finding in run.findings if finding.kind == "calls"]
    assert call.count == 1
    assert run.checks["causal"].verdict == "unknown"


@pytest.mark.parametrize(
    ("form", "change", "expected"),
    [
        ("jaeger", {"processID": "p99"}, 'processID "p99": expected one of the processes of its trace'),
        ("jaeger", {"startTime": "yesterday"}, 'startTime "yesterday": expected microseconds since 1970'),
        ("jaeger", {"duration": -1}, "duration -1: expected microseconds"),
        ("jaeger", {"spanID": ""}, "a span without the names of its trace and of itself"),
        ("jaeger", {"references": 7}, "7: expected a list of objects"),
        ("zipkin", {"timestamp": None}, "timestamp null: expected microseconds since 1970"),
        ("zipkin", {"localEndpoint": "shop"}, 'localEndpoint "shop": expected an object'),
        ("zipkin", {"binaryAnnotations": []}, "binaryAnnotations are of version 1: expected version 2"),
        ("zipkin", {"traceId": 7}, "a span without the names of its trace and of itself"),
    ],
)
def test_a_span_that_means_nothing_is_told_and_does_not_spoil_the_others(
    tmp_path: Path, form: str, change: Raw, expected: str
) -> None:
    document: Any = api(answered()) if form == "jaeger" else of_zipkin(answered())
    first = document["data"][0]["spans"][0] if form == "jaeger" else document[0]
    first |= change
    run = judged(written(tmp_path / "a.json", document))
    assert run.deliveries == 4
    (bad,) = [finding for finding in run.findings if finding.kind == "bad-line"]
    assert expected in bad.text
    assert run.checks["phantom"].verdict == "unknown"


@pytest.mark.parametrize("form", ["jaeger", "zipkin"])
def test_a_document_that_was_cut_is_no_log_and_a_request_that_was_cut_is_left_out(tmp_path: Path, form: str) -> None:
    path = written(tmp_path / "a.json", api(answered()) if form == "jaeger" else of_zipkin(answered()))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(TraceError, match="was cut, and left out"):
        trace.read(path)
    lines = [json.dumps(one) for one in (of_jaeger(answered()) if form == "jaeger" else [of_zipkin(answered())])]
    path.write_text("".join(line + "\n" for line in lines) + lines[0][:200])
    assert [finding.kind for finding in judged(path).findings if finding.is_error] == ["truncated"]


def test_what_the_exporter_to_zipkin_writes_is_judged(tmp_path: Path) -> None:
    exporter = pytest.importorskip(
        "opentelemetry.exporter.zipkin.json", reason="needs opentelemetry-exporter-zipkin-json"
    ).ZipkinExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind, set_span_in_context

    class Session:
        """What requests.Session is to the exporter: it takes what would be posted."""

        status_code, text = 202, ""

        def __init__(self) -> None:
            self.headers: dict[str, str] = {}

        def close(self) -> None:
            pass

        def post(self, *, data: str, **others: Any) -> Session:
            with (tmp_path / "spans.json").open("a") as file:
                file.write(data + "\n")
            return self

    tracers = {}
    providers = []
    for name in ("shop", "störe"):
        resource = Resource.create({"service.name": name, "service.instance.id": "1"})
        providers.append(TracerProvider(resource=resource))
        providers[-1].add_span_processor(BatchSpanProcessor(exporter(session=Session())))
        tracers[name] = providers[-1].get_tracer("tests")
    sent = [tracers["shop"].start_span("send", kind=SpanKind.PRODUCER) for _ in range(3)]
    for span in sent:
        span.end()
    for span in reversed(sent):
        tracers["störe"].start_span("process", set_span_in_context(span), kind=SpanKind.CONSUMER).end()
    for provider in providers:
        provider.shutdown()
    run = judged(tmp_path)
    assert (run.format, run.processes) == ("zipkin", ("shop", "störe"))
    assert (run.messages, run.deliveries, run.checks["lost"].verdict) == (3, 3, "unknown")
    assert run.checks["fifo"].count == 2 or "equal-times" in [finding.kind for finding in run.findings]
