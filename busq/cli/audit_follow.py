# SPDX-License-Identifier: Apache-2.0
"""`busq audit --follow`: what is wrong, a line each, while the trace is being recorded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from busq._util.humanize import amount, listed
from busq.cli.base import Refusal, is_read, print_json

if TYPE_CHECKING:
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

_OPTIONS = {"chosen": "run", "format_name": "format", "runs_by": "runs-by", "fields_file": "fields"}


def follow(paths: Sequence[str], options: Mapping[str, Any], asked: Mapping[str, Any]) -> int:
    """Follow one directory until Ctrl-C; returns the exit code."""
    if len(paths) != 1:
        raise Refusal(f"--follow takes one directory, and {len(paths)} are named")
    for name in _NOT_NOW:
        if options[name]:
            raise Refusal(
                f"--follow judges what comes as it comes: leave --{_OPTIONS.get(name, name)} to an audit afterwards"
            )
    if other := _of_others(paths[0]):
        raise Refusal(other)
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


def _of_others(path: str) -> str:
    """Return why the logs in a folder are not followed; "" where there are none, or the recorder may be at work."""
    from busq.trace import find
    from busq.trace.errors import TraceError

    if any(name.endswith(".parquet") for _, _, names in os.walk(path) for name in names):
        return ""
    try:
        return _why_not(path, find([path]).sources) if os.path.isdir(path) else ""
    except (TraceError, OSError):
        return ""


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


def _as_json(echo: Callable[[str], None]) -> Callable[[Violation], None]:
    return lambda found: echo(json.dumps({"type": "found"} | found.as_json(), ensure_ascii=False))


def _as_line(echo: Callable[[str], None]) -> Callable[[Violation], None]:
    def report(found: Violation) -> None:
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
