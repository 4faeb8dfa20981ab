# SPDX-License-Identifier: Apache-2.0
"""Logs of other systems and a schedule of mails, for tests: small ones made here, and real ones where they are.

What is made is the same every time, so that tests can know what is wrong with it.  The real ones lie beside the
repository, in ../shared/data, on machines whose owners have fetched them.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT.parent / "shared" / "data"

CHAT = """ann {"ann":1}
asks
bob {"ann":1, "bob":1}
hears
bob {"ann":1, "bob":2}
answers
ann {"ann":2, "bob":2}
hears
"""  # two people, as ShiViz has them

Logs = dict[int, list[str]]
Clock = dict[str, int]


class Known(NamedTuple):
    """What is known about one run of a broadcast program, by other means than the observers."""

    processes: int
    broadcasts: int
    deliveries: int
    faults: dict[str, int]  # but for messages on cycles and crowns, which tests count by themselves
    findings: list[str]


# ---- runs of broadcast programs ----

COURSE_SAMPLES = {
    "causal": Known(5, 100, 500, {"consistent": 10}, []),
    "cut-short": Known(3, 120, 324, {"lost": 36, "consistent": 3}, []),
    "overtaken": Known(6, 100, 400, {"lost": 200, "causal": 74, "consistent": 6}, ["empty-log"] * 2),
    "two-runs/N.output": Known(5, 36, 108, {"lost": 72, "causal": 4, "consistent": 3}, ["empty-log"] * 2),
    "two-runs/procN.output": Known(5, 60, 300, {"consistent": 10}, []),
}
COURSE_REAL = {
    "dm-20201124": Known(10, 100, 1000, {"consistent": 45}, []),
    "gi-20211114": Known(9, 900, 8100, {"consistent": 36}, []),
    "sd-20211212": Known(3, 3000, 9000, {"consistent": 3}, []),
    "sd-20211211": Known(3, 3000, 4857, {"lost": 4143, "consistent": 3}, []),
    "dm-20201111": Known(10, 7000, 49000, {"lost": 21000, "causal": 3278, "consistent": 21}, ["empty-log"] * 3),
    "mg-20211121/N.output": Known(5, 500, 2500, {"causal": 102, "consistent": 10}, ["empty-log"] * 5),
    # The logs of p6 to p10 are of a third run, an earlier one: these five broadcast and deliver ten messages each.
    "mg-20211121/procN.output": Known(10, 150, 934, {"lost": 566, "consistent": 40}, ["mixed-runs"]),
}
COURSE = COURSE_SAMPLES | (COURSE_REAL if (REAL / "epfl").is_dir() else {})


def course(samples: Path, name: str) -> Path:
    """The folder of the logs of one run, or of two, by its name above."""
    folder = name.partition("/")[0]
    return (
        REAL / "epfl" if folder in {real.partition("/")[0] for real in COURSE_REAL} else samples / "course"
    ) / folder


def broadcast(seed: int, processes: int, each: int, is_causal: bool) -> Logs:
    """Logs of processes that broadcast so many messages each, and deliver them in FIFO or in causal order."""
    draw = random.Random(seed).random
    everybody = range(1, processes + 1)
    logs: Logs = {process: [] for process in everybody}
    sent = dict.fromkeys(everybody, 0)
    delivered = {process: dict.fromkeys(everybody, 0) for process in everybody}
    needs: dict[tuple[int, int], dict[int, int]] = {}  # what the sender of a message had delivered before

    def may_deliver(process: int, sender: int) -> bool:
        number = delivered[process][sender] + 1
        if number > sent[sender]:
            return False
        past = needs[sender, number] if is_causal else {}
        return all(delivered[process][other] >= count for other, count in past.items())

    while True:
        moves = [(process, 0) for process in everybody if sent[process] < each]
        moves += [(to, sender) for to in everybody for sender in everybody if may_deliver(to, sender)]
        if not moves:
            return logs
        process, sender = moves[int(draw() * len(moves))]
        if sender:
            delivered[process][sender] += 1
            logs[process].append(f"d {sender} {delivered[process][sender]}")
        else:
            needs[process, sent[process] + 1] = delivered[process] | {process: sent[process]}
            sent[process] += 1
            logs[process].append(f"b {sent[process]}")


def cut(logs: Logs) -> Logs:
    """All broadcasts, and of the deliveries behind the last one of them the first half."""
    kept = {}
    for process, lines in logs.items():
        last = max(number for number, line in enumerate(lines) if line[0] == "b")
        kept[process] = lines[: (last + 1 + len(lines)) // 2]
        kept[process] += [line for line in lines[len(kept[process]) :] if line[0] == "b"]
    return kept


def write_course(folder: Path) -> None:
    empty: Logs = {4: [], 5: []}
    runs = {
        "causal/proc0{}.output": broadcast(1, 5, 20, is_causal=True),
        "cut-short/{}.output": cut(broadcast(2, 3, 40, is_causal=True)),
        "overtaken/proc0{}.output": broadcast(3, 4, 25, is_causal=False) | {5: [], 6: []},
        "two-runs/{}.output": broadcast(4, 3, 12, is_causal=False) | empty,
        "two-runs/proc0{}.output": broadcast(5, 5, 12, is_causal=True),
    }
    for name, logs in runs.items():
        for process, lines in logs.items():
            path = folder / name.format(process)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines))


# ---- executions with vector clocks ----


@dataclass
class Told:
    """An execution as its hosts log it: (host, clock, text), each with what it knew of the others."""

    clocks: dict[str, Clock] = field(default_factory=dict)
    events: list[tuple[str, Clock, str]] = field(default_factory=list)

    def tell(self, host: str, text: str, heard: Clock | None = None) -> Clock:
        """An event, and its clock; `heard` is the clock that came with a message."""
        mine = self.clocks.setdefault(host, {})
        for other, number in (heard or {}).items():
            mine[other] = max(mine.get(other, 0), number)
        mine[host] = mine.get(host, 0) + 1
        self.events.append((host, dict(mine), text))
        return dict(mine)


def market(rounds: int) -> Told:
    """A customer orders, a shop asks its store, and each of them answers."""
    told = Told()
    for number in range(rounds):
        asked = told.tell("customer", f"orders {number} apples")
        passed = told.tell("shop", f"asks for {number} apples", told.tell("shop", "has an order", asked))
        found = told.tell("store", "looks", passed)
        answered = told.tell("shop", "hears of the apples", told.tell("store", "answers", found))
        told.tell("customer", "is told", answered)
    return told


def flood(hosts: int, messages: int, dead: str = "") -> Told:
    """Each message goes to all, one after the other; one host may have crashed before."""
    told = Told()
    names = [f"node{number}" for number in range(hosts)]
    if dead:
        told.tell(dead, "Crashing")
    for number in range(messages):
        sender = names[-1 - number % 2]
        message = f"Note({number})"
        told.tell(sender, f"Initiating RBBroadcast({message})")
        for host in names:
            carried = told.tell(sender, f"Sending {message} to {host}") if host != sender else None
            if host != dead:
                told.tell(host, f"RBDeliver of message {message} from {sender}", carried)
    return told


def govector(told: Told) -> Iterator[str]:
    for host, clock, text in told.events:
        yield f"{host} {json.dumps(clock)}\n{text}\n"


def web_server(told: Told) -> Iterator[str]:
    for number, (host, clock, text) in enumerate(told.events):
        action = ("GET", "POST", "INFO")[number % 3]
        path, time = text.replace(" ", "-"), f"09:{number // 60:02}:{number % 60:02} AM"
        yield f"10.0.0.{len(host)} 7/14/2026 {time} {action} /{path}\n"
        yield f"{host} {json.dumps(clock)}\n"


def akka(told: Told) -> Iterator[str]:
    for number, (host, clock, text) in enumerate(told.events):
        where = f"[07/14/2026 09:00:00.{number:03}] [pool-{number % 4}] [akka://Notes/user/{host}]"
        yield f"[INFO] {where} {json.dumps(clock).replace(':', ' :')} {text}\n"


AKKA = r"\[\w+\] \[(?<date>([^ ]+ [^ ]+))\] [^ ]+ \[akka://\w+/user/(?<host>\w+)\] (?<clock>.*\}) (?<event>.*)"
WEB_SERVER = (
    r"(?<ip>(\d{1,3}\.){3}\d{1,3}) (?<date>(\d{1,2}/){2}\d{4} (\d{2}:){2}\d{2} (AM|PM)) "
    r"(?<action>(INFO|GET|POST)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
)
GOVECTOR = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"

# By file: the parser that its writer would name.
PARSERS_SAMPLES = {"market": GOVECTOR, "page": WEB_SERVER, "notes": AKKA}
PARSERS_REAL = {"chord": GOVECTOR, "facebook": WEB_SERVER, "simple-reliable-broadcast": AKKA}
PARSERS = PARSERS_SAMPLES | (PARSERS_REAL if (REAL / "shiviz").is_dir() else {})

# By execution: hosts, events in the log, findings.
CLOCKED_SAMPLES: dict[str, tuple[int, int, list[str]]] = {
    "market": (3, 140, []),
    "backwards": (3, 140, ["clock-backwards"]),
    "page": (3, 42, []),
    "pages/One day": (3, 42, []),
    "pages/Another day": (3, 28, []),
    "notes": (3, 24, []),
    "crashed": (4, 22, ["bad-line"]),
}
CLOCKED_REAL: dict[str, tuple[int, int, list[str]]] = {
    "chord": (8, 1235, ["clock-backwards"]),
    "facebook": (4, 47, []),
    "facebook-multiple/Execution #1": (4, 47, []),
    "facebook-multiple/Execution #2": (4, 41, []),
    "multiple-comparison/Base execution": (2, 8, []),
    "multiple-comparison/Same as base": (2, 8, []),
    "multiple-comparison/Different host from base": (2, 8, []),
    "multiple-comparison/All events are different from base": (2, 8, []),
    "multiple-comparison/Some events are different from base": (2, 8, []),
    "reliable-broadcast": (4, 116, ["bad-line"]),
    "simple-reliable-broadcast": (3, 39, []),
}
CLOCKED = {"samples": CLOCKED_SAMPLES} | ({"real": CLOCKED_REAL} if (REAL / "shiviz").is_dir() else {})


def clocked(samples: Path, which: str) -> Path:
    """The folder of logs with vector clocks: those made here ("samples"), or the real ones."""
    return samples / "clocked" if which == "samples" else REAL / "shiviz"


def backwards(told: Told) -> Told:
    """Two events of one host have changed places in its log."""
    mine = [number for number, event in enumerate(told.events) if event[0] == "customer"]
    first, second = mine[4], mine[5]
    told.events[first], told.events[second] = told.events[second], told.events[first]
    return told


def write_clocked(folder: Path) -> None:
    folder.mkdir()
    logs = {
        "market": govector(market(20)),
        "backwards": govector(backwards(market(20))),
        "page": web_server(market(6)),
        "pages": ["=== One day ===\n", *web_server(market(6)), "=== Another day ===\n", *web_server(market(4))],
        "notes": akka(flood(3, 4)),
        "crashed": [*akka(flood(4, 3, dead="node0")), "[INFO] the system has shut down\n"],
    }
    for name, lines in logs.items():
        (folder / f"{name}.log").write_text("".join(lines))


# ---- spans of OpenTelemetry ----


@dataclass
class Spans:
    """Services that send each other messages, as their spans in OTLP record it, each in a request of its own."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    instance: str = "1"

    def span(
        self,
        service: str,
        operation: str,
        start: int,
        end: int,
        links: tuple[str, ...] = (),
        parent: str = "",
        **others: Any,
    ) -> str:
        """Add a span, in microseconds, and return its name; `others` are fields of it, or attributes with a dot."""
        name = f"{len(self.requests) + 1:016x}"
        kind = {"create": 4, "send": 4, "publish": 4, "process": 5, "receive": 5}.get(operation, 1)
        attributes = {"messaging.operation.type": operation} if operation else {}
        attributes |= {key: value for key, value in others.items() if "." in key}
        span: dict[str, Any] = {
            "traceId": "a" * 32,
            "spanId": name,
            "name": f"{operation} orders",
            "kind": kind,
            "startTimeUnixNano": str(10**18 + 1000 * start),
            "endTimeUnixNano": str(10**18 + 1000 * end),
            "attributes": attributes_of(attributes),
        }
        span |= {"parentSpanId": parent} if parent else {}
        span |= {"links": [{"traceId": "a" * 32, "spanId": link} for link in links]} if links else {}
        span |= {key: value for key, value in others.items() if "." not in key}
        resource = {"service.name": service} | ({"service.instance.id": self.instance} if self.instance else {})
        scopes = [{"scope": {"name": "samples"}, "spans": [span]}]
        self.requests.append(
            {"resourceSpans": [{"resource": {"attributes": attributes_of(resource)}, "scopeSpans": scopes}]}
        )
        return name

    def text(self) -> str:
        return "".join(json.dumps(request, separators=(",", ":")) + "\n" for request in self.requests)


def attributes_of(values: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {bool: "boolValue", int: "intValue", str: "stringValue"}
    return [
        {"key": key, "value": {kinds[type(value)]: str(value) if type(value) is int else value}}
        for key, value in values.items()
    ]


def orders(late: bool = False) -> Spans:
    """A shop sends two orders to a store, which answers each; the second may be handled first."""
    spans = Spans()
    sent = [spans.span("shop", "send", 10 * number, 10 * number + 1) for number in (1, 2)]
    for place, order in enumerate(reversed(sent) if late else sent):
        handled = spans.span("store", "process", 100 + 10 * place, 105 + 10 * place, links=(order,))
        answer = spans.span("store", "send", 102 + 10 * place, 103 + 10 * place, parent=handled)
        spans.span("shop", "process", 200 + 10 * place, 205 + 10 * place, links=(answer,))
    return spans


# ---- mails ----


class Mails(NamedTuple):
    messages: int
    copies: int


MAILS_SAMPLE = Mails(3000, 10_378)
MAILS_REAL = Mails(21_635, 38_388)
MAILS = {"sample": MAILS_SAMPLE} | ({"real": MAILS_REAL} if (REAL / "enron.csv.gz").exists() else {})


def mails(samples: Path, which: str) -> Path:
    """The file of mails: those made here ("sample"), or the real ones."""
    return samples / "mails.csv.gz" if which == "sample" else REAL / "enron.csv.gz"


def write_mails(path: Path) -> None:
    """People write to one or to many others, some of them at the same second, and some people much more than others."""
    draw = random.Random(6).random
    people = [f"p{number}" for number in range(1, 91)]
    time_s = 0
    with gzip.open(path, "wt", newline="") as file:
        table = csv.writer(file)
        table.writerow(["time", "sender", "recipients"])
        for _ in range(MAILS_SAMPLE.messages):
            time_s += int(draw() ** 4 * 1000)
            sender = people[int(draw() ** 3 * len(people))]
            count = 1 if draw() < 0.7 else 1 + int(draw() ** 3 * 40)
            chosen = {people[int(draw() ** 2 * len(people))] for _ in range(count)} - {sender}
            table.writerow([time_s, sender, " ".join(sorted(chosen) or ["nobody"])])


def write(folder: Path) -> Path:
    """Everything that is made here, in a folder that exists and is empty."""
    write_course(folder / "course")
    write_clocked(folder / "clocked")
    write_mails(folder / "mails.csv.gz")
    return folder
