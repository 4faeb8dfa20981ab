# SPDX-License-Identifier: Apache-2.0
"""`busq audit --follow`: what is wrong, a line each, while the trace is being recorded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from busq._util.humanize import amount, listed
from busq.cli.base import Refusal, is_read, leave_at_once, print_json

if TYPE_CHECKING:
    from busq.audit import Audit
    from busq.audit.again import Followed as OthersFollowed
    from busq.audit.again import Report
    from busq.audit.spark.following.follow import Followed
    from busq.audit.spark.following.watch import Violation
    from busq.trace.run import Source

# Asked for by other options of the command; a trace that is not complete cannot give it.
_NOT_NOW = (
    "report",
    "shiviz",
    "diagram",
    "checks",
    "chosen",
    "strict",
    "format_name",
    "runs_by",
    "fields_file",
    "broadcast",
)

_NOT_OF_OTHERS = ("report", "shiviz", "diagram", "strict", "output", "checkpoint", "master", "memory")

_OPTIONS = {"chosen": "run", "format_name": "format", "runs_by": "runs-by", "fields_file": "fields"}


def follow(
    paths: Sequence[str], options: Mapping[str, Any], asked: Mapping[str, Any], judge: Callable[[], Audit]
) -> int:
    """Follow one directory until Ctrl-C; returns the exit code.  `judge` takes a look at logs of others."""
    if len(paths) != 1:
        raise Refusal(f"--follow takes one directory, and {len(paths)} are named")
    are_others = _are_others(paths[0])
    for name in _NOT_OF_OTHERS if are_others else _NOT_NOW:
        if options[name]:
            raise Refusal(
                f"--follow judges what comes as it comes: leave --{_OPTIONS.get(name, name)} to an audit afterwards"
            )
    if are_others:
        return _follow_others(paths[0], options, judge)
    from busq.audit.spark.following.follow import follow as follow_directory
    from busq.cli import show

    if sys.stderr.isatty():
        click.echo(f"following {paths[0]}; Ctrl-C ends it", err=True)
    with show.steps_below() as (progress, echo):
        found = follow_directory(
            paths[0],
            report=_as_json(echo) if options["as_json"] else _as_line(echo),
            delay_s=options["delay"],
            stop=None if options["once"] else lambda: not is_read(),
            progress=progress,
            **asked,
            **{name: options[name] for name in ("checkpoint", "seconds", "once", "master", "memory")},
        )
    if options["as_json"]:
        print_json({"type": "summary"} | found.as_json())
    else:
        click.echo(summary(found))
        if found.has_looked and not found.events:
            click.echo(_why_nothing(paths[0]))
    return _code(found)


def _are_others(path: str) -> bool:
    """Return whether a path has logs that others wrote, and none that the recorder may be at work on."""
    if os.path.isfile(path):
        return True
    from busq.trace.parquet_head import is_recorded

    walked = os.walk(path)
    names = [os.path.join(at, name) for at, _, its in walked for name in its if not name.startswith((".", "_"))]
    tables = [name for name in names if name.endswith(".parquet")]
    known = [its for its in map(is_recorded, tables) if its is not None]
    return bool(known or (names and not tables)) and not any(known)


def _follow_others(path: str, options: Mapping[str, Any], judge: Callable[[], Audit]) -> int:
    """Look at logs of others again and again, in C; returns the exit code."""
    from busq.audit import again
    from busq.cli import show

    if sys.stderr.isatty():
        click.echo(f"following {path}, which is read as a whole at each look; Ctrl-C ends it", err=True)
    with show.steps_below() as (_, echo):
        found = again.follow(
            path,
            judge,
            _as_json(echo) if options["as_json"] else _as_line(echo),
            stop=lambda: not is_read(),
            delay_s=options["delay"],
            seconds=options["seconds"],
            once=options["once"],
        )
    if options["as_json"]:
        print_json({"type": "summary"} | found.as_json())
    else:
        click.echo("\n".join(_summary_of_others(found)))
    code = 1 if found.is_wrong else 0 if found.ok else 2
    if found.is_struck:
        leave_at_once(code)
    return code


def _summary_of_others(found: OthersFollowed) -> Iterator[str]:
    """Give the last lines of looking again and again."""
    if found.last is None:
        yield f"nothing could be judged in {amount(found.looks, 'look')}: {found.reason}"
        return
    runs = found.last.runs
    what = f"{amount(len(runs), 'run')}, {amount(sum(run.events for run in runs), 'event')}"
    faults = ", ".join(f"{kind} {count:,}" for kind, count in found.counts.items())
    none = "nothing wrong so far" if found.last.could_judge else "no verdict"
    yield f"{what} in {found.seconds:.0f} s, {amount(found.looks, 'look')}: {faults or none}"
    checks = [check for run in runs for check in run.checks.values() if check.claimed and check.word == "unknown"]
    for text in dict.fromkeys(check.text for check in checks):
        yield f"unknown: {listed(sorted({check.name for check in checks if check.text == text}))}: {text}"
    if found.reason:
        yield f"the last look failed: {found.reason}"


def _why_nothing(path: str) -> str:
    """Return why nothing under a path was judged."""
    from busq.trace import find
    from busq.trace.errors import TraceError

    try:
        return _why_not(path, find([path]).sources)
    except (TraceError, OSError) as error:
        return str(error)


def _why_not(path: str, sources: Sequence[Source]) -> str:
    formats = listed(sorted({source.format for source in sources if source.format != "busq"}))
    what = f"logs in {formats}" if formats else "tables that others wrote, or empty ones"
    return (
        f"{path} holds {what}: --follow takes what busq records as it grows, with segments in order; "
        f"busq audit {path} judges what is there"
    )


def _code(found: Followed) -> int:
    """1 for what is wrong, be it a file that cannot be read; 2 where what was judged is not all, or nothing."""
    return 1 if found.is_wrong else 0 if found.ok else 2


def _as_json(echo: Callable[[str], None]) -> Callable[[Violation | Report], None]:
    return lambda found: echo(json.dumps({"type": "found"} | found.as_json(), ensure_ascii=False))


def _as_line(echo: Callable[[str], None]) -> Callable[[Violation | Report], None]:
    def report(found: Violation | Report) -> None:
        place = f"{found.run}: " if found.run else ""
        kind = found.kind if found.is_claimed else f"({found.kind})"
        text = f"taken back: {found.text}" if found.is_taken_back else found.text
        echo(f"{datetime.now():%H:%M:%S}  {kind:<12}  {place}{text}")

    return report


def summary(found: Followed) -> str:
    """Return the last lines of following: the findings by number, and the messages that stay open."""
    what = f"{amount(found.runs, 'run')}, {amount(found.files, 'file')}, {amount(found.events, 'event')}"
    faults = ", ".join(f"{kind} {count:,}" for kind, count in found.claimed.items())
    lines = [f"{what} in {found.seconds:.0f} s: {faults or _nothing(found)}"]
    others = {kind: count - found.claimed.get(kind, 0) for kind, count in found.counts.items()}
    told = [f"{kind} {count:,}" for kind, count in others.items() if count and kind not in ("resent", "doubled")]
    if told:
        lines.append(f"not held against it: {', '.join(told)}")
    if resent := found.counts.get("resent"):
        lines.append(
            f"{amount(resent, 'message')} sent again, or out of turn: an audit without --follow may judge them"
        )
    if doubled := found.counts.get("doubled"):
        lines.append(f"{amount(doubled, 'position')} with several events: an audit without --follow may tell more")
    if found.unread:
        lines.append(
            f"{amount(found.unread, 'file')} came late and could not be judged any more: the counts may be wrong"
        )
    if found.unjudged:
        lines.append(f"{amount(found.unjudged, 'run')} not judged: an audit without --follow may")
    if found.pending:
        lines.append(f"{amount(found.pending, 'delivery', 'deliveries')} pending: sent, and not delivered so far")
    if found.unproven:
        lines.append(f"{amount(found.unproven, 'delivery', 'deliveries')} cannot be judged: logs have holes there")
    if found.unwatched:
        lines.append(f"{amount(found.unwatched, 'delivery', 'deliveries')} not watched: too many were pending")
    if found.unseen:
        why = " (some events have no stamps)" if {"causal", "consistent", "total"} & set(found.unseen) else ""
        lines.append(f"not watched{why}: {', '.join(found.unseen)}; an audit without --follow judges that")
    return "\n".join(lines)


def _nothing(found: Followed) -> str:
    if not found.has_looked:
        return "ended before the files were looked for: no verdict"
    if not found.events:
        return "nothing to judge: no verdict"
    if found.unread or found.unjudged:
        return "no verdict"
    return f"nothing wrong so far{' with the others' if found.leaves_out else ''}"
