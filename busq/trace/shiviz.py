# SPDX-License-Identifier: Apache-2.0
r"""Logs with vector clocks as ShiViz takes them, among them those of GoVector.

A regular expression in JavaScript's syntax describes an event: its groups `event`, `host` and `clock` must
be there, others are passed over; it may span lines.  Another one, the delimiter, marks where one execution ends and the
next begins; its group `trace`, if there is one, is the name of what follows.  Both may stand in the first two lines of
the file.  Without them, the shapes in `SHAPES` are tried, and the one is taken that leaves the fewest lines over.

Lines that belong to no event are bad lines, unless there are more of them than events: then the log stands in the
output of some program, and only lines that hold a clock count.

Such a log does not name senders and receivers; its clocks show what came before what.  So messages are what follows
from the clocks (`busq.trace.vector_clocks`).  Where events speak of messages themselves, `send` and `deliver` are
regular expressions for their text, with the group `message` (its name), and, if need be, `to` (names of hosts) and
`sender` (of what is delivered).  If `to` is missing, the receivers of a message are the hosts that delivered it, and
no loss is seen; by the option `broadcast`, all hosts are.  Broadcasts of Akka programs are known, and are to all hosts.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from busq._util.humanize import amount
from busq.trace.builder import UNKNOWN_SENDER, Log, by_nature
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.guesses import NO_DESTINATIONS, RECEIVERS_DERIVED
from busq.trace.numbering import numbered
from busq.trace.regular import compiled, of_javascript
from busq.trace.run import Run, Source
from busq.trace.schema import Kind
from busq.trace.text import BadLine, by_host, content, decoded
from busq.trace.vector_clocks import Event, inspect, messages

__all__ = ["OPTIONS", "SHAPES", "is_log", "read", "traces_in"]

OPTIONS = ("parser", "delimiter", "send", "deliver")

# Shapes of events that are tried, the most special first: of those that take as many lines, the first one is taken.
SHAPES = {
    "Akka": r"\[\w+\] \[(?<date>\S+ \S+)\] \S+ \[akka://[^\]]*/(?<host>[^/\]]+)\] (?<clock>\{.*?\}) (?<event>.*)",
    "web server": (
        r"(?<ip>\d{1,3}(?:\.\d{1,3}){3}) (?<date>\d{1,2}/\d{1,2}/\d{4} \d{2}:\d{2}:\d{2} (?:AM|PM)) "
        r"(?<action>INFO|GET|POST) (?<event>.*)\n(?<host>\w*) (?<clock>\{.*\})"
    ),
    "TLC": r'^State \d+: <(?<event>\w+).*>\n/\\ Host = (?<host>.*)\n/\\ Clock = "(?<clock>.*)"$',
    "GoVector with times": r"^(?<timestamp>\d+) (?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)",
    "GoVector": r"^(?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)",
    "ShiViz": r"^(?<event>.*)\n(?<host>\S*) (?<clock>\{.*\})",
    "one line": r"^(?<host>\S+) (?<clock>\{.*?\}) +(?<event>\S.*)",
    "clocks alone": r"^(?<host>\S+) (?<clock>\{.*\})(?<event>)[ \t]*$",
}
DELIMITER = r"^=== (?<trace>.*) ===$"

# Texts of events that mention messages.
_BROADCASTS = {
    "send": r"^Initiating \w*Broadcast\((?<message>.+)\)$",
    "deliver": r"^\w*Deliver of message (?<message>.+?)(?: from \S+)?$",
}

_GROUPS = ("event", "host", "clock")
_CLOCK = re.compile(r'\{\s*\\?"[^"{}]*"\s*:\s*-?\d')
_NUMBER_MAX = (1 << 62) - 1


def is_log(head: bytes) -> bool:
    """Return whether a text may be such a log: clocks stand in it, or its first line is a parser.

    >>> is_log(b'ann {"ann":1}\\nhello\\n'), is_log(b"b 1\\n")
    (True, False)
    """
    text = decoded(head)
    return _header(text) is not None or any(
        _CLOCK.search(line) and not line.lstrip().startswith("{") for line in text.splitlines()[:2000]
    )


# ---- regular expressions ----


def _parser(expression: str) -> re.Pattern[str]:
    parser = compiled(of_javascript(expression), "parser")
    missing = [name for name in _GROUPS if name not in parser.groupindex]
    if missing:
        groups = " and ".join(f"(?<{name}>...)" for name in missing)
        raise TraceError(f"the parser {expression!r} lacks {groups}: expected groups event, host and clock")
    return parser


def _header(text: str) -> tuple[str, str, int] | None:
    """Return the parser and the delimiter in the first two lines, and where the log begins, if they stand there."""
    first, _, rest = text.partition("\n")
    if not all(f"(?<{name}>" in first for name in _GROUPS):
        return None
    second, _, _ = rest.partition("\n")
    return first.strip(), second.strip(), len(first) + len(second) + 2


# ---- a file ----


@dataclass
class _Parsed:
    """The events of one execution in a file, and what was wrong with its lines."""

    trace: str
    events: list[tuple[str, dict[str, int], str, int]] = field(default_factory=list)  # host, clock, text, line
    bad: list[BadLine] = field(default_factory=list)
    cut: int = 0  # the last line of the file, if it has no end


@dataclass
class _File:
    """A text, how it is to be read, and where its lines begin."""

    text: str
    parser: re.Pattern[str]
    delimiter: re.Pattern[str] | None
    begin: int

    def __post_init__(self) -> None:
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line(self, place: int) -> int:
        return bisect.bisect_right(self.line_starts, place)


def _open(text: str, options: Mapping[str, str]) -> _File:
    """Settle how a text is to be read: by the options, by its header, or by what it looks like."""
    header = _header(text)
    begin = 0
    parser, delimiter = options.get("parser", ""), options.get("delimiter", "")
    if header:
        begin = header[2]
        parser, delimiter = parser or header[0], delimiter or header[1]
    elif not delimiter and re.search(compiled(DELIMITER, "delimiter"), text):
        delimiter = DELIMITER
    shape = _parser(parser) if parser else _guess(text)
    return _File(text, shape, compiled(of_javascript(delimiter), "delimiter") if delimiter else None, begin)


def _guess(text: str) -> re.Pattern[str]:
    """Return the shape that takes most clocks of a log, and of those the one that leaves the fewest lines over."""
    sample = text if len(text) < 1 << 20 else text[: text.rfind("\n", 0, 1 << 20) + 1]
    best: tuple[tuple[int, int], re.Pattern[str]] | None = None
    for name, expression in SHAPES.items():
        parser = _parser(expression)
        spans = [(match.start(), match.end()) for match in parser.finditer(sample)]
        score = (-len(spans), _left_over(sample, spans))
        if name == "clocks alone" and score[1]:  # then there are texts as well
            continue
        if spans and (best is None or score < best[0]):
            best = (score, parser)
    if best is None:
        raise TraceError(
            "no event was recognised: expected a parser, a regular expression with the groups event, host and clock;"
            " where there are no vector clocks, [text] in busq.toml"
        )
    return best[1]


def _left_over(text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Return how many lines, without blank ones, no span touches."""
    lines = end = 0
    for start, stop in [*spans, (len(text), len(text))]:
        begin = text.rfind("\n", 0, start) + 1
        if begin > end:
            lines += sum(1 for line in text[end:begin].split("\n") if line.strip())
        following = text.find("\n", stop)
        end = max(end, len(text) if following < 0 else following + 1)
    return lines


def _executions(file: _File) -> Iterator[tuple[str, int, int]]:
    """Give the executions in a file: name, begin and end; those without any text are left out."""
    names: dict[str, int] = {}
    begin, trace = file.begin, ""
    cuts = list(file.delimiter.finditer(file.text, file.begin)) if file.delimiter else []
    for cut in [*cuts, None]:
        end = cut.start() if cut else len(file.text)
        if file.text[begin:end].strip():
            names[trace] = names.get(trace, 0) + 1
            yield f"{trace} ({names[trace]})" if names[trace] > 1 else trace, begin, end
        if cut:
            begin, trace = cut.end(), cut.groupdict().get("trace") or ""


def _parse(file: _File, trace: str, begin: int, end: int) -> _Parsed:
    """Read the events of an execution."""
    parsed = _Parsed(trace, cut=file.line(len(file.text)) if file.text[-1:] not in ("", "\n") else 0)
    after = begin  # what comes before was looked at
    left: list[tuple[int, str]] = []
    for match in file.parser.finditer(file.text, begin, end):
        if match.end() == match.start():
            continue
        left += _lines(file, after, file.line_starts[file.line(match.start()) - 1])
        after = max(after, _line_end(file.text, match.end(), end))
        line = file.line(match.start("clock"))
        host = (match["host"] or "").strip()
        clock, why = _clock(match["clock"] or "")
        if clock is None or not host:
            parsed.bad.append(BadLine(line, match[0].replace("\n", " | "), why if host else "no host", host))
            continue
        parsed.events.append((host, clock, " ".join((match["event"] or "").split()), file.line(match.start())))
    left += _lines(file, after, end)
    is_chatter = len(left) > len(parsed.events)
    parsed.bad += [BadLine(line, text) for line, text in left if not is_chatter or _CLOCK.search(text)]
    parsed.bad.sort(key=lambda bad: bad.line)
    return parsed


def _line_end(text: str, place: int, end: int) -> int:
    if place and text[place - 1] == "\n":
        return place
    newline = text.find("\n", place, end)
    return end if newline < 0 else newline + 1


def _lines(file: _File, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """Give the lines between two places that are not blank, with their numbers."""
    if begin < end:
        number = file.line(begin)
        for offset, line in enumerate(file.text[begin:end].split("\n")):
            if line.strip():
                yield number + offset, line.strip()


def _clock(text: str) -> tuple[dict[str, int] | None, str]:
    """Return a clock without components that are 0, or None and what is wrong with it."""
    try:
        parsed = json.loads(text.replace('\\"', '"') if '\\"' in text else text)
    except (ValueError, RecursionError) as error:
        return None, f"the clock is no JSON: {error}"
    if not isinstance(parsed, dict):
        return None, "the clock is no JSON object of hosts and numbers"
    clock: dict[str, int] = {}
    for host, time in parsed.items():
        if isinstance(time, bool) or not isinstance(time, int) or not 0 <= time <= _NUMBER_MAX:
            return None, f"the clock of {host} is {json.dumps(time)}: expected a number from 0 on"
        if time:
            clock[host] = time
    return clock, ""


def _opened(path: str, options: Mapping[str, str]) -> tuple[_File, list[Finding]]:
    data, cut = content(path)
    try:
        return _open(decoded(data), options), [cut] if cut else []
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def traces_in(path: str, options: Mapping[str, str]) -> list[tuple[str, set[str]]]:
    """Return the executions in a file: their names ("" if they have none) and their hosts.

    Errors: TraceError for a bad expression, or if there is no event at all; OSError.
    """
    file, _ = _opened(path, options)
    traces = []
    for trace, begin, end in _executions(file):
        hosts = {(match["host"] or "").strip() for match in file.parser.finditer(file.text, begin, end)} - {""}
        if hosts:
            traces.append((trace, hosts))
    if not traces:
        raise TraceError(f"{path}: no event was recognised by the parser {file.parser.pattern!r}")
    return traces


# ---- a run ----


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one execution.

    Errors: TraceError for a bad expression, or if there is no event; OSError.  Cost: about 20 us per event.
    """
    findings = list(source.findings)
    parsed: list[tuple[str, _Parsed]] = []
    for path in source.paths:
        file, cut = _opened(path, source.options)
        findings += cut
        for trace, begin, end in _executions(file):
            if len(source.paths) > 1 or trace == source.trace:
                parsed.append((path, _parse(file, trace, begin, end)))
    names = by_nature(
        {host for _, each in parsed for host, _, _, _ in each.events}
        | {host for _, each in parsed for _, clock, _, _ in each.events for host in clock}
    )
    for path, each in parsed:
        known = {name: name for name in names}
        findings += by_host(path, each.bad, known, "an event with a host and a clock", each.cut)
    indices = {name: index for index, name in enumerate(names)}
    events: list[list[Event]] = [[] for _ in names]
    for path, each in parsed:
        for host, clock, text, line in each.events:
            by_index = {indices[name]: time for name, time in clock.items()}
            events[indices[host]].append(Event(indices[host], by_index, text, path, line))
    if not any(events):
        raise TraceError(f"{source.name}: no event was recognised in {', '.join(source.paths[:3])}")
    findings += inspect(events, names)
    spoken = _application(source, events, names, findings)
    logs = spoken or messages(events)
    tables = [log.table(source.name, index, columns) for index, log in enumerate(logs)]
    return Run(source, tuple(names), tuple(tables), findings=tuple(findings), is_derived=not spoken)


# ---- messages that the texts of events speak of ----


@dataclass
class _Spoken:
    """An event whose text may speak of a message."""

    event: Event
    kind: Kind
    match: re.Match[str] | None

    def group(self, name: str) -> str:
        """Return what a group of its expression found, "" if nothing."""
        return (self.match.groupdict().get(name) or "") if self.match else ""


def _application(
    source: Source, events: Sequence[list[Event]], names: Sequence[str], findings: list[Finding]
) -> list[Log]:
    """Return the logs with the messages that texts speak of; nothing if they do not."""
    options = source.options
    asked = "send" in options or "deliver" in options
    send, deliver = (
        _spoken(options.get(name, "" if asked else default), name) for name, default in _BROADCASTS.items()
    )
    all_of = [_understood(event, send, deliver) for mine in events for event in mine]
    kinds = {one.kind for one in all_of}
    if not {Kind.SEND, Kind.DELIVER} <= kinds and not asked:
        return []
    if kinds == {Kind.LOCAL}:
        raise TraceError("no event was recognised by the options send and deliver")
    indices = {name: index for index, name in enumerate(names)}
    places: dict[str, int] = {}
    process = np.array([one.event.process for one in all_of])
    kind = np.array([one.kind for one in all_of])
    called = np.array([places.setdefault(one.group("message"), len(places)) if one.match else -1 for one in all_of])
    told = [one.group("sender") if one.kind == Kind.DELIVER else "" for one in all_of]
    sender = np.array([indices.get(name, UNKNOWN_SENDER) if name else -1 for name in told])
    numbers, _ = numbered(process, kind, called, sender)
    keys, is_own = process * len(all_of) + called, (sender < 0) | (sender == process)
    own = bool(((kind == Kind.DELIVER) & is_own & np.isin(keys, keys[kind == Kind.SEND])).any())
    got: dict[int, set[int]] | None = None  # the receivers of messages whose texts name none
    if asked and options.get("broadcast") != "true":
        got = _receivers(all_of, numbers.tolist())
        findings += _untold(source, [one for one in all_of if one.kind == Kind.SEND])
    logs = [Log() for _ in names]
    for one, number in zip(all_of, numbers.tolist(), strict=True):
        mine = one.event.process
        if one.kind == Kind.SEND:
            to = {indices[name] for name in re.split(r"[\s,;]+", one.group("to")) if name in indices}
            if not one.group("to"):
                everybody = {other for other in range(len(names)) if own or other != mine}
                to = everybody if got is None else got.get(number, set())
            logs[mine].add(Kind.SEND, number, destinations=sorted(to), label=one.group("message"))
        elif one.kind == Kind.DELIVER:
            logs[mine].add(Kind.DELIVER, number, label=one.group("message"))
        else:
            logs[mine].add(Kind.LOCAL, label=one.event.text)
    return logs


def _receivers(all_of: Sequence[_Spoken], numbers: Sequence[int]) -> dict[int, set[int]]:
    """Return the processes that delivered each message."""
    got: dict[int, set[int]] = {}
    for one, number in zip(all_of, numbers, strict=True):
        if one.kind == Kind.DELIVER:
            got.setdefault(number, set()).add(one.event.process)
    return got


def _untold(source: Source, sends: Sequence[_Spoken]) -> Iterator[Finding]:
    """Report sends whose texts name no destinations."""
    silent = [one.event for one in sends if not one.group("to")]
    if not silent:
        return
    path, why = source.paths[0], "those who delivered are taken as such, so no loss can be told"
    if len(silent) == len(sends):
        text = f"{path}: {NO_DESTINATIONS}: {why}"
        yield Finding(RECEIVERS_DERIVED, text, len(silent), path, is_error=False)
        return
    path, line = silent[0].path, silent[0].line
    text = f"{path}:{line}: {amount(len(silent), 'send')} of {len(sends):,} without destinations: {why} of these"
    yield Finding("no-destinations", text, len(silent), path, line, is_error=False, may_hide=("lost",))


def _understood(event: Event, send: re.Pattern[str] | None, deliver: re.Pattern[str] | None) -> _Spoken:
    if send and (match := send.search(event.text)):
        return _Spoken(event, Kind.SEND, match)
    match = deliver.search(event.text) if deliver else None
    return _Spoken(event, Kind.DELIVER if match else Kind.LOCAL, match)


def _spoken(expression: str, name: str) -> re.Pattern[str] | None:
    if not expression:
        return None
    pattern = compiled(of_javascript(expression), f"option {name}")
    if "message" not in pattern.groupindex:
        raise TraceError(f"the option {name} {expression!r} lacks (?<message>...): expected the name of the message")
    return pattern
