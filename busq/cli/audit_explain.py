# SPDX-License-Identifier: Apache-2.0
"""`busq audit --explain`: what would be taken for what, before anything is judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from busq._util.humanize import amount, listed
from busq.cli import show
from busq.cli.base import Refusal, print_json, write_text
from busq.trace.text import printable

if TYPE_CHECKING:
    from busq.trace import Finding, Run, Source
    from busq.trace.explained import Explained

__all__ = ["check", "explain"]

RUNS_MAX = 4
WORDS_MAX = 20

_COUNTS = {
    "sends": ("send",),
    "deliveries": ("delivery", "deliveries"),
    "repetitions": ("delivery marked as repetition", "deliveries marked as repetitions"),
    "others": ("other event",),
}

# Asked for by other options of the command; nothing is judged here.
_OF_VERDICTS = ("report", "shiviz", "diagram", "output", "output_table", "compare", "follow", "sql", "tables", "strict")


def check(options: Mapping[str, Any]) -> None:
    """Refuse what does not go together."""
    if options["pin"] and not options["explain"]:
        raise Refusal("--pin is for --explain: leave it out")
    for name in _OF_VERDICTS if options["explain"] else ():
        if options[name]:
            raise Refusal(
                f"--explain judges nothing: leave --{name.rstrip('s').replace('_', '-')} to an audit afterwards"
            )


def explain(
    paths: Sequence[str], sources: Sequence[Source], findings: Sequence[Finding], options: Mapping[str, Any]
) -> int:
    """Print what was found, and pin it where that is asked for; returns the exit code: 2 where no run can be read."""
    from busq.trace.explained import explained, toml_of

    place = _place(paths, options["fields_file"]) if options["pin"] else ""
    found = [explained(source, doubts=_doubts) for source in sources]
    column = next(
        (each.fields.get("run", "run") for each, source in zip(found, sources, strict=True) if source.trace), ""
    )
    are_alike = all(finding.kind != "left-out" for finding in findings)
    text = toml_of(found, sources[0].options, column, are_alike=are_alike)
    if options["as_json"]:
        its = [each.as_json() for each in found]
        print_json({"runs": its, "findings": [each.as_json() for each in findings], "busq.toml": text})
    else:
        for each in found[:RUNS_MAX]:
            show.to_stdout(*_run(each))
        if len(found) > RUNS_MAX:
            show.to_stdout(Text(f"and {amount(len(found) - RUNS_MAX, 'other run')}: --run NAME shows one of them\n"))
        show.to_stdout(*(_remark(each) for each in findings))
        if not place:
            show.to_stdout(Text("busq.toml beside them would pin this (--pin writes it):\n"))
            click.echo(text)
    if place:
        write_text(place, text)
    return 2 if all(not each.counts for each in found) else 0


def _doubts(run: Run) -> Sequence[Finding]:
    """Return the findings about a run, also those that take a look at what it delivers."""
    from busq.audit.native import audit

    return audit(run, checks=("phantom",)).findings


def _place(paths: Sequence[str], fields_file: str | None) -> str:
    """Return where the file of fields goes; refuse one that is there."""
    from busq.trace import places
    from busq.trace.dataset import dataset_of
    from busq.trace.described import NAME

    plain = [places.plain(path) for path in paths]
    folders = {dataset_of(path if places.is_folder(path) else os.path.dirname(path)) for path in plain}
    if len(folders) > 1:
        raise Refusal(f"--pin: the paths stand in {listed(sorted(folders))}: expected those of one folder")
    place = os.path.join(folders.pop(), NAME)
    if places.is_remote(place):
        raise Refusal(f"--pin: {place} is not on this machine: --explain shows the text, to be put there")
    if os.path.exists(place) or fields_file:
        raise Refusal(f"--pin: there is {fields_file or place}, which says it already: change it, or move it away")
    return place


def _run(found: Explained) -> Iterator[Any]:
    facts = [found.format, amount(len(found.paths), "file")]
    facts += [amount(len(found.processes), "process", "processes")] if found.processes else []
    facts += [amount(found.counts["events"], "event")] if found.counts else []
    yield Text.assemble((found.run, "bold"), f": {', '.join(facts)}")
    if found.counts:
        counts = [amount(found.counts[word], *names) for word, names in _COUNTS.items() if found.counts[word]]
        yield Text(f"taken for: {', '.join(counts) or 'nothing'}")
    if found.fields:
        yield _fields(found)
    if found.unused:
        yield Text(f"not used: {listed([printable(name) for name in found.unused])}")
    if found.words:
        yield Text(f"words: {'; '.join(_words(found.words))}")
    for text, how in found.times.items():
        yield Text(f"times: {printable(text)} counts {how}")
    if found.rows:
        yield _rows(found)
    yield from map(_remark, found.findings)
    yield Text("")


def _fields(found: Explained) -> Any:
    table = show.new_table("", "field", "taken from", left=["field", "taken from"])
    for name, text in found.fields.items():
        table.add_row(name, printable(text))
    for name, text in found.missing.items():
        table.add_row(
            name, Text(f"not found{f', perhaps --field {name}={printable(text)}' if text else ''}", style="yellow")
        )
    return table


def _words(words: Mapping[str, str]) -> Iterator[str]:
    for word, means in list(words.items())[:WORDS_MAX]:
        yield f"{printable(word)!r} is {means or 'nothing that is known: a local event'}"
    if len(words) > WORDS_MAX:
        yield f"and {len(words) - WORDS_MAX:,} more"


def _rows(found: Explained) -> Any:
    columns = list(dict.fromkeys(name for row in found.rows for name in row))
    table = show.new_table("", *columns, left=[name for name in columns if name != "time_ns"])
    for row in found.rows:
        table.add_row(*(show.fit_names(printable(_shown(row.get(name)))) for name in columns))
    return table


def _shown(value: Any) -> str:
    return "" if value is None else listed(value) if isinstance(value, list) else str(value)


def _remark(finding: Finding) -> Text:
    count = f" ({finding.count:,})" if finding.count > 1 else ""
    return Text.assemble((finding.kind, "yellow"), f": {finding.text}{count}")
