# SPDX-License-Identifier: Apache-2.0
"""`busq audit --follow`: what is wrong, a line each, while the trace is being recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from busq._words import amount
from busq.cli.base import Refusal, is_read, print_json

if TYPE_CHECKING:
    from busq.audit.spark.follow import Followed
    from busq.audit.spark.watch import Violation

# Asked for by other options of the command; a trace that is not complete cannot give it.
_NOT_NOW = ("report", "shiviz", "diagram", "checks", "chosen", "strict", "format_name", "runs_by", "fields_file")

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
    from busq.audit.spark.follow import follow as follow_directory

    if sys.stderr.isatty():
        click.echo(f"following {paths[0]}; Ctrl-C ends it", err=True)
    found = follow_directory(
        paths[0],
        report=_as_json if options["as_json"] else _as_line(),
        delay_s=options["delay"],
        stop=None if options["once"] else lambda: not is_read(),
        **asked,
        **{name: options[name] for name in ("checkpoint", "seconds", "once", "master", "memory")},
    )
    if options["as_json"]:
        print_json({"type": "summary"} | found.as_json())
    else:
        click.echo(_summary(found))
    return int(not found.ok)


def _as_json(found: Violation) -> None:
    print_json({"type": "found"} | found.as_json())


def _as_line() -> Callable[[Violation], None]:
    def report(found: Violation) -> None:
        place = f"{found.run}: " if found.run else ""
        kind = found.kind if found.is_claimed else f"({found.kind})"
        click.echo(f"{datetime.now():%H:%M:%S}  {kind:<12}  {place}{found.text}")

    return report


def _summary(found: Followed) -> str:
    what = f"{amount(found.runs, 'run')}, {amount(found.files, 'file')}, {amount(found.events, 'event')}"
    faults = ", ".join(f"{kind} {count:,}" for kind, count in found.claimed.items())
    lines = [f"{what} in {found.seconds:.0f} s: {faults or 'nothing wrong so far'}"]
    others = {kind: count - found.claimed.get(kind, 0) for kind, count in found.counts.items()}
    told = [f"{kind} {count:,}" for kind, count in others.items() if count]
    if told:
        lines.append(f"not held against it: {', '.join(told)}")
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
