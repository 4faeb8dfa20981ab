# SPDX-License-Identifier: Apache-2.0
"""`busq audit --compare BEFORE AFTER`, and what `--output` prints: two audits beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from busq._util.humanize import amount, listed
from busq.cli import show
from busq.cli.base import Refusal, print_json

if TYPE_CHECKING:
    from busq.audit import Audit
    from busq.audit.blocks import Blocks
    from busq.audit.compare import Comparison, Difference
    from busq.audit.output import Written
    from busq.cli.audit_pages import Reader

__all__ = ["check", "compare", "parts", "tell_written", "write_output"]

ROWS_MAX = 20
_STYLES = {"worse": "bold red", "better": "green", "unknown": "yellow"}


def check(paths: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse what does not go with --compare."""
    if len(paths) != 2:
        raise Refusal(f"--compare: found {amount(len(paths), 'path')}, expected two: BEFORE and AFTER")
    for name in ("follow", "report", "shiviz", "diagram", "output", "output_table"):
        if options[name]:
            raise Refusal(f"--{name.replace('_', '-')} does not go with --compare")


def compare(paths: Sequence[str], tolerance: float, as_json: bool, judge: Callable[[str], tuple[Audit, Reader]]) -> int:
    """Compare two outputs of audits, or two traces, which `judge` audits."""
    from busq.audit import compare as room
    from busq.audit import output

    def tables(path: str) -> Any:
        if output.is_output(path):
            return output.read(path)
        found, load = judge(path)
        return output.tables_of(found, parts(found, load))

    found = room.compare(tables(paths[0]), tables(paths[1]), tolerance=tolerance)
    if as_json:
        print_json(found.as_json())
    else:
        _tell(found)
    return int(not found.ok)


def write_output(found: Audit, load: Reader, folder: str) -> None:
    """Add the audit to a folder of tables, and print what became of rows that were there."""
    from busq.audit import output

    tell_written(found, output.write(found, folder, parts(found, load)), folder)


def tell_written(found: Audit, written: Written, place: str) -> None:
    """Print where an audit was added, and what became of rows that were there."""
    what = amount(len(found.runs), "run")
    if written.replaced:
        names = listed(list(written.replaced[:3])) + (", ..." if len(written.replaced) > 3 else "")
        what += f", of which {len(written.replaced):,} had been there: the rows of {names} were replaced"
    click.echo(f"wrote {place}: {what}", err=True)


def parts(found: Audit, load: Reader) -> dict[str, Any]:
    """Return the latencies in parts of all runs that have times and fit into memory."""
    from busq.audit.blocks import blocks_of

    by_run: dict[str, dict[tuple[str, str], Blocks]] = {}
    for run in found.runs:
        logs = load(run.run) if "latency_us" in run.figures or "queueing_us" in run.figures else None
        if logs is not None:
            by_run[run.run] = dict(blocks_of(logs))
    return by_run


def _tell(found: Comparison) -> None:
    for verdict, title in (("worse", "Worse"), ("better", "Better"), ("unknown", "Not known")):
        its = found.having(verdict)
        if its:
            show.to_stdout(Text(f"{title}:", style=_STYLES[verdict]), *(_line(one, found) for one in its[:ROWS_MAX]))
        if len(its) > ROWS_MAX:
            show.to_stdout(Text(f"  and {len(its) - ROWS_MAX:,} more (--json has all)"))
    for names, where in ((found.gone, "before"), (found.new, "after")):
        if names:
            shown = listed(list(names[:3])) + (", ..." if len(names) > 3 else "")
            show.to_stdout(Text(f"Only {where}: {shown}: not compared"))
    runs = amount(len(found.runs), "run")
    what = f"{runs} compared: {len(found.having('worse')):,} worse, {len(found.having('better')):,} better, "
    what += f"{len(found.having('unknown')):,} not known, {len(found.having('same')):,} the same"
    limit = f"latencies may grow by {found.tolerance:.0%}; all intervals together hold with 95 %"
    show.to_stdout(Text(f"{what} ({limit}). Exit code {int(not found.ok)}.", style="" if found.ok else "bold red"))


def _line(one: Difference, found: Comparison) -> Text:
    where = f"{one.run}: " if len(found.runs) > 1 else ""
    return Text(f"  {where}{one.text}")
