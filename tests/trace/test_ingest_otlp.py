# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry as a trace: which of them are messages, and what they can't show."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import queue
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

from samples import Spans, attributes_of, orders

import busq
from busq import trace
from busq.audit import RunAudit
from busq.trace import Kind, Run, TraceError

# What no span ever shows.
ALWAYS = ["no-destinations", "wall-clocks"]


def written(tmp_path: Path, spans: Spans | str, name: str = "spans.json") -> Path:
    path = tmp_path / name
    path.write_text(spans if isinstance(spans, str) else spans.text())
    return path


def read(tmp_path: Path, spans: Spans | str) -> Run:
    return trace.read(written(tmp_path, spans))


def judged(path: Path) -> RunAudit:
    found = busq.audit.audit(path)
    assert len(found.runs) == 1
    return found.runs[0]


def verdicts(run: RunAudit) -> dict[str, str]:
    return {name: check.verdict for name, check in run.checks.items()}


def kinds(run: Run | RunAudit) -> list[str]:
    return sorted(finding.kind for finding in run.findings)


def story(run: Run) -> dict[str, list[str]]:
    """What each process did: "1.2>0" sends the second message of process 1 to process 0, "1.2" gets it."""
    told = {}
    for process, log in zip(run.processes, run.logs, strict=True):
        rows = log.select(["kind", "message", "destinations"]).to_pylist()
        told[process] = [
            f"{row['message'] >> 32}.{row['message'] & 0xFFFFFFFF}"
            + (f">{','.join(map(str, row['destinations']))}" if row["kind"] == Kind.SEND else "")
            for row in rows
        ]
    return told


def test_by_broadcast_each_message_was_to_all_other_instances(tmp_path: Path) -> None:
    spans = Spans()
    sent = spans.span("shop", "publish", 10, 11)
    spans.span("store", "process", 20, 21, links=(sent,))
    spans.span("bank", "process", 22, 23, links=(spans.span("shop", "publish", 12, 13),))
    path = written(tmp_path, spans)
    assert judged(path).checks["lost"].verdict == "unknown"
    (run,) = busq.audit.audit(path, options={"broadcast": "true"}).runs
    assert (run.checks["lost"].count, kinds(run)) == (2, ALWAYS)
    assert run.checks["phantom"].verdict == "valid"
    assert "taken as sent to all but its sender, as asked for" in run.findings[0].text


# ---- which spans are messages ----


def test_sends_and_what_processes_them_are_messages(tmp_path: Path) -> None:
    run = read(tmp_path, orders())
    assert story(run) == {"shop": ["0.1>1", "0.2>1", "1.1", "1.2"], "store": ["0.1", "1.1>0", "0.2", "1.2>0"]}
    assert kinds(run) == ALWAYS


def test_an_order_that_is_overtaken_is_a_fifo_fault(tmp_path: Path) -> None:
    late = judged(written(tmp_path, orders(late=True)))
    assert verdicts(late) | {"lost": "", "side": ""} == {
        **dict.fromkeys(("duplicated", "phantom", "consistent", "total"), "valid"),
        **dict.fromkeys(("fifo", "causal", "synchronous"), "invalid"),
        **dict.fromkeys(("lost", "side"), ""),
        **dict.fromkeys(("clock", "views"), "unknown"),
    }
    assert late.checks["fifo"].text == "store delivered shop.2 before shop.1, but shop sent shop.1 before shop.2"


def test_a_parent_will_do_where_nothing_is_linked(tmp_path: Path) -> None:
    spans = Spans()
    spans.span("store", "process", 20, 21, parent=spans.span("shop", "publish", 10, 11))
    assert story(read(tmp_path, spans)) == {"shop": ["0.1>1"], "store": ["0.1"]}


def test_the_kind_will_do_where_no_operation_is_told(tmp_path: Path) -> None:
    spans = Spans()
    sent = spans.span("shop", "", 10, 11, kind="SPAN_KIND_PRODUCER")
    spans.span("store", "", 20, 21, links=(sent,), kind="SPAN_KIND_CONSUMER")
    spans.span("store", "settle", 22, 23, links=(sent,), kind=3)
    assert story(read(tmp_path, spans)) == {"shop": ["0.1>1"], "store": ["0.1"]}


def test_a_batch_is_sent_as_the_messages_that_were_created_for_it(tmp_path: Path) -> None:
    spans = Spans()
    created = tuple(spans.span("shop", "create", at, at + 1) for at in (1, 2))
    spans.span("shop", "send", 5, 6, links=created, kind=3)
    for place, message in enumerate(created):
        spans.span("store", "process", 20 + place, 21 + place, links=(message,))
    run = read(tmp_path, spans)
    assert story(run)["store"] == ["0.1", "0.2"]
    assert run.logs[0]["time_ns"].to_pylist() == [10**18 + 5000] * 2
    assert "equal-times" in kinds(run), "which one of the batch is first, nobody says"


def test_what_is_received_and_then_processed_is_one_delivery(tmp_path: Path) -> None:
    spans = Spans()
    sent = spans.span("shop", "send", 10, 11)
    received = spans.span("store", "receive", 20, 30, links=(sent,))
    spans.span("store", "process", 31, 32, links=(sent,), parent=received)
    spans.span("copy", "receive", 20, 40, links=(sent,))
    run = read(tmp_path, spans)
    assert story(run) == {"copy": ["1.1"], "shop": ["1.1>0,2"], "store": ["1.1"]}
    times = {name: log["time_ns"][0].as_py() - 10**18 for name, log in zip(run.processes, run.logs, strict=True)}
    assert times == {"copy": 40_000, "shop": 10_000, "store": 31_000}


def test_what_is_processed_twice_is_duplicated(tmp_path: Path) -> None:
    spans = Spans()
    sent = spans.span("shop", "send", 10, 11)
    outer = spans.span("store", "process", 20, 30, links=(sent,))
    spans.span("store", "process", 21, 29, links=(sent,), parent=outer)  # a library within a library
    assert verdicts(judged(written(tmp_path, spans)))["duplicated"] == "valid"
    spans.span("store", "process", 40, 50, links=(sent,))
    assert verdicts(judged(written(tmp_path, spans)))["duplicated"] == "invalid"


def test_instances_of_a_service_are_processes_of_their_own(tmp_path: Path) -> None:
    spans = orders()
    spans.instance = "2"
    spans.span("store", "process", 300, 301, links=(spans.span("shop", "send", 290, 291),))
    assert read(tmp_path, spans).processes == ("shop 1", "shop 2", "store 1", "store 2")


def test_the_files_of_a_folder_are_one_run(tmp_path: Path) -> None:
    """Each service writes a file of its own; the collector goes on in another one."""
    lines = orders().text().splitlines(keepends=True)
    (tmp_path / "of").mkdir()
    written(tmp_path / "of", "".join(lines[::2]), "a.json")
    (tmp_path / "of" / "b.json.gz").write_bytes(gzip.compress("".join(lines[1::2]).encode()))
    found = trace.find(tmp_path / "of")
    assert [(source.name, source.format, len(source.paths)) for source in found.sources] == [("of", "otlp", 2)]
    assert story(trace.read(found.sources[0])) == story(read(tmp_path, orders()))
    assert kinds(trace.read(found.sources[0])) == sorted([*ALWAYS, "one-run"])


def test_lines_in_any_order_are_the_same_run(tmp_path: Path) -> None:
    """Exporters write a span when it has ended, and parents after their children."""
    backwards = "".join(reversed(orders().text().splitlines(keepends=True)))
    assert story(read(tmp_path, backwards)) == story(read(tmp_path, orders()))


def test_a_request_may_be_printed_over_many_lines(tmp_path: Path) -> None:
    together = {"resourceSpans": [one for request in orders().requests for one in request["resourceSpans"]]}
    run = read(tmp_path, json.dumps(together, indent=2))
    assert story(run) == story(read(tmp_path, orders()))


def in_snake_case(value: Any) -> Any:
    """Fields as Protobuf names them; attributes keep their names."""
    if isinstance(value, dict):
        return {
            re.sub("[A-Z]", lambda found: "_" + found[0].lower(), key): in_snake_case(its) for key, its in value.items()
        }
    return [in_snake_case(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("indent", [None, 2])
def test_fields_may_have_the_names_that_protobuf_has(indent: int | None, tmp_path: Path) -> None:
    together = {"resourceSpans": [one for request in orders().requests for one in request["resourceSpans"]]}
    text = json.dumps(in_snake_case(together), indent=indent)
    assert '"resource_spans"' in text
    run = read(tmp_path, text)
    assert (story(run), kinds(run)) == (story(read(tmp_path, orders())), ALWAYS)


def test_metrics_and_logs_between_them_are_passed_over(tmp_path: Path) -> None:
    text = '{"resourceMetrics":[]}\n' + orders().text() + '{"resourceLogs":[{}]}\n'
    assert kinds(read(tmp_path, text)) == ALWAYS


def test_spans_that_were_exported_again_count_once(tmp_path: Path) -> None:
    run = read(tmp_path, orders().text() * 2)
    assert story(run) == story(read(tmp_path, orders()))
    assert "repeated-spans" in kinds(run)


# ---- what they can't show ----


def test_no_loss_is_ever_told_and_side_channels_are_not(tmp_path: Path) -> None:
    spans = orders()
    spans.span("shop", "send", 400, 401)
    found = judged(written(tmp_path, spans))
    assert (found.checks["lost"].verdict, found.checks["side"].verdict) == ("unknown", "unknown")
    assert [(one.kind, one.count) for one in found.findings if one.kind == "never-consumed"] == [("never-consumed", 1)]


def test_the_order_of_equal_times_is_not_told(tmp_path: Path) -> None:
    spans = Spans()
    for _ in range(2):
        spans.span("store", "process", 20, 20, links=(spans.span("shop", "send", 10, 10),))
    found = verdicts(judged(written(tmp_path, spans)))
    assert {found[name] for name in ("fifo", "causal", "consistent", "total", "synchronous")} == {"unknown"}
    assert found["duplicated"] == found["phantom"] == "valid"


def test_events_at_equal_times_stand_as_in_the_file(tmp_path: Path) -> None:
    """Whatever Python's hashes are in this process: two readings of a file are the same run."""
    spans = Spans()
    for _ in range(8):
        spans.span("store", "process", 20, 20, links=(spans.span("shop", "create", 10, 10),))
    assert story(read(tmp_path, spans))["store"] == [f"0.{number}" for number in range(1, 9)]


def test_sends_of_several_threads_have_no_order(tmp_path: Path) -> None:
    spans = Spans()
    first, second = spans.span("shop", "send", 10, 30), spans.span("shop", "send", 20, 25)
    spans.span("store", "process", 40, 41, links=(second,))
    spans.span("store", "process", 50, 51, links=(first,))
    found = judged(written(tmp_path, spans))
    assert (found.checks["fifo"].verdict, found.checks["fifo"].count) == ("unknown", 1)
    assert "several sends at once" in found.checks["fifo"].text


@pytest.mark.parametrize("is_its_own", [True, False])
def test_a_send_beside_a_message_in_work_may_not_know_of_it(tmp_path: Path, is_its_own: bool) -> None:
    """The store hears of the order and passes it to the bank, which gets the order itself after that."""
    spans = Spans()
    order = spans.span("shop", "send", 10, 11)
    handled = spans.span("store", "process", 20, 30, links=(order,))
    news = spans.span("store", "send", 25, 26, parent=handled if is_its_own else "")
    spans.span("bank", "process", 40, 41, links=(news,))
    spans.span("bank", "process", 50, 51, links=(order,))
    causal = judged(written(tmp_path, spans)).checks["causal"]
    assert (causal.verdict, causal.count) == ("invalid" if is_its_own else "unknown", 1)


def test_instances_that_nothing_tells_apart_may_be_several(tmp_path: Path) -> None:
    spans = orders(late=True)
    for request in spans.requests:
        attributes = request["resourceSpans"][0]["resource"]["attributes"]
        attributes[:] = [one for one in attributes if one["key"] != "service.instance.id"]
    found = judged(written(tmp_path, spans))
    assert found.checks["fifo"].verdict == "unknown"
    assert "service.instance.id" in found.checks["fifo"].text


def test_a_message_whose_send_stands_nowhere_may_be_unsampled(tmp_path: Path) -> None:
    spans = orders()
    spans.span("store", "process", 400, 401, links=("f" * 16,))
    found = judged(written(tmp_path, spans))
    assert (found.checks["phantom"].verdict, found.checks["phantom"].count) == ("unknown", 1)
    assert found.checks["causal"].verdict == "unknown"
    assert "missing-spans" in kinds(found)


def test_a_consumer_that_names_no_message_leaves_everything_open(tmp_path: Path) -> None:
    spans = orders()
    spans.span("store", "process", 400, 401)
    found = judged(written(tmp_path, spans))
    assert "unlinked" in kinds(found)
    assert {check.verdict for check in found.checks.values() if not check.count} == {"unknown"}


def test_a_poll_that_got_nothing_is_no_delivery(tmp_path: Path) -> None:
    spans = orders()
    spans.span("store", "receive", 400, 500)
    assert kinds(read(tmp_path, spans)) == ALWAYS


def test_a_batch_without_its_messages_is_ambiguous(tmp_path: Path) -> None:
    spans = Spans()
    sent = spans.span("shop", "send", 10, 11, **{"messaging.batch.message_count": 2})
    for at in (20, 30):
        spans.span("store", "process", at, at + 1, links=(sent,))
    found = judged(written(tmp_path, spans))
    assert "ambiguous" in kinds(found)
    assert found.checks["duplicated"].verdict == "unknown"


def test_calls_and_samples_may_hide_causes(tmp_path: Path) -> None:
    spans = orders()
    spans.span("bank", "", 400, 401, parent=spans.span("shop", "", 390, 410, kind=3), kind=2)
    assert (verdicts(judged(written(tmp_path, spans)))["causal"]) == "unknown"
    spans = orders()
    spans.requests[0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceState"] = "ot=th:8"
    assert (verdicts(judged(written(tmp_path, spans)))["causal"]) == "unknown"


# ---- what is wrong with the files ----

CUT = orders().text()[:-40]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (CUT, "truncated"),
        (orders().text() + "what\n\n", "bad-line"),
        (orders().text() + "[1]\n", "bad-line"),
        (orders().text() + '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"a"}]}]}]}\n', "bad-line"),
        (orders().text() + '{"resourceSpans":[{"resource":3,"scopeSpans":7}]}\n', "bad-line"),
        (orders().text().replace("1000000000000010000", "soon"), "bad-line"),
    ],
    ids=["cut", "no JSON", "no request", "no span", "no resource", "no time"],
)
def test_damage_is_a_finding_and_nothing_holds(tmp_path: Path, text: str, finding: str) -> None:
    found = judged(written(tmp_path, text))
    assert finding in kinds(found)
    assert "valid" not in {found.checks[name].verdict for name in ("lost", "phantom", "fifo", "causal", "total")}


def mutated(value: Any, draw: random.Random) -> Any:
    """The same, but for some values that are others, or are missing."""
    if draw.random() < 0.03:
        return draw.choice([None, 3, -1, "x", [], {}, [1], {"a": 1}, 1e300, True, "9" * 25, "\ud800"])
    if isinstance(value, list):
        return [mutated(one, draw) for one in value for _ in range(1 + (draw.random() < 0.03))]
    if isinstance(value, dict):
        return {key: mutated(one, draw) for key, one in value.items() if draw.random() > 0.01}
    return value


def test_damage_of_any_kind_ends_in_a_verdict_or_a_line(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        requests = [mutated(request, draw) for request in orders().requests]
        text = "".join(json.dumps(request) + "\n" for request in requests)
        path = written(tmp_path, text[: draw.randrange(len(text))] if draw.random() < 0.3 else text)
        with contextlib.suppress(TraceError):
            busq.audit.audit(path, format="otlp")


def test_spans_without_messages_are_refused_in_a_line(tmp_path: Path) -> None:
    spans = Spans()
    spans.span("shop", "", 1, 2)
    with pytest.raises(TraceError, match="1 span, and none of them sends or gets a message"):
        read(tmp_path, spans)


# ---- what the real SDK writes ----


class Lines:
    """An exporter that writes a request per line: OTLP in JSON, with names in hexadecimal, or as protobuf has them."""

    def __init__(self, path: Path, is_hex: bool) -> None:
        self._path = path
        self._is_hex = is_hex

    def export(self, spans: Sequence[Any]) -> Any:
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.trace.export import SpanExportResult

        request = MessageToDict(encode_spans(spans))
        with self._path.open("a") as file:
            file.write(json.dumps(in_hex(request) if self._is_hex else request) + "\n")
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def in_hex(value: Any) -> Any:
    """OTLP writes the names of traces and spans in hexadecimal, where protobuf's JSON has base64."""
    if isinstance(value, list):
        return [in_hex(one) for one in value]
    if not isinstance(value, dict):
        return value
    names = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64decode(one).hex() if key in names else in_hex(one) for key, one in value.items()}


class Service:
    """A service that is instrumented by hand, after the conventions for messaging."""

    def __init__(self, name: str, path: Path, is_hex: bool, is_batched: bool) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

        resource = Resource.create({"service.name": name, "service.instance.id": f"{name}-1"})
        self.provider = TracerProvider(resource=resource)
        processor = BatchSpanProcessor if is_batched else SimpleSpanProcessor
        self.provider.add_span_processor(processor(Lines(path, is_hex)))
        self.tracer = self.provider.get_tracer("tests")
        self.inbox: queue.Queue[tuple[str, dict[str, str]]] = queue.Queue()

    def send(self, to: Sequence[Service], name: str) -> None:
        from opentelemetry.propagate import inject
        from opentelemetry.trace import SpanKind

        attributes = {"messaging.operation.type": "send", "messaging.system": "tests", "messaging.message.id": name}
        with self.tracer.start_as_current_span("send orders", kind=SpanKind.PRODUCER, attributes=attributes):
            headers: dict[str, str] = {}
            inject(headers)
            for receiver in to:
                receiver.inbox.put((name, headers))

    def process(self, then: Any = None, *, by_parent: bool = False, last: bool = False) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import Link, SpanKind, get_current_span

        if last:
            kept = [self.inbox.get() for _ in range(self.inbox.qsize())]
            name, headers = kept.pop()
            for one in kept:
                self.inbox.put(one)
        else:
            name, headers = self.inbox.get()
        context = extract(headers)
        told = {"context": context} if by_parent else {"links": [Link(get_current_span(context).get_span_context())]}
        attributes = {"messaging.operation.type": "process", "messaging.message.id": name}
        with self.tracer.start_as_current_span("process", kind=SpanKind.CONSUMER, attributes=attributes, **told):
            if then is not None:
                then()


@pytest.mark.parametrize("is_hex", [True, False], ids=["OTLP", "protobuf"])
@pytest.mark.parametrize("is_batched", [True, False], ids=["batched", "one by one"])
@pytest.mark.parametrize("by_parent", [True, False], ids=["parent", "link"])
def test_what_the_sdk_writes_is_judged(tmp_path: Path, is_hex: bool, is_batched: bool, by_parent: bool) -> None:
    pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.common", reason="needs opentelemetry-exporter-otlp")
    folder = tmp_path / "spans"
    folder.mkdir()
    shop, store, bank = (
        Service(name, folder / f"{name}.jsonl", is_hex, is_batched) for name in ("shop", "store", "bank")
    )
    for number in range(5):
        shop.send([store, bank], f"order-{number}")
        store.process(lambda: store.send([bank], "paid?"), by_parent=by_parent)
    bank.process(by_parent=by_parent)
    bank.process(by_parent=by_parent, last=True)  # the store's last question, before all of the shop's orders
    for _ in range(8):
        bank.process(by_parent=by_parent)
    for service in (shop, store, bank):
        service.provider.shutdown()
    found = judged(folder)
    assert (found.format, found.processes) == ("otlp", ("bank", "shop", "store"))
    assert (found.messages, found.deliveries) == (10, 15)
    assert found.checks["causal"].verdict == "invalid"
    assert found.checks["fifo"].count == 4, "the last question overtook the store's four others"
    assert found.checks["duplicated"].verdict == found.checks["phantom"].verdict == "valid"
    assert found.checks["lost"].verdict == "unknown"
    assert set(kinds(found)) <= {*ALWAYS, "one-run"}


def test_attributes_are_written_as_in_otlp() -> None:
    assert attributes_of({"a": 1, "b": "c"}) == [
        {"key": "a", "value": {"intValue": "1"}},
        {"key": "b", "value": {"stringValue": "c"}},
    ]
