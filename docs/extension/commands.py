# SPDX-License-Identifier: Apache-2.0
"""The reference of the command line: what Click knows of each command, and what `--help` prints."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from busq.cli import commands
from extension.docstrings import prose
from extension.pages import GENERATED, heading, indented, write


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(command, info_name=path)
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _walk(found, f"{path} {name}")


def _help(command: click.Command) -> list[str]:
    paragraphs = inspect.cleandoc(command.help or "").replace("\f", "").split("\n\n")
    return [line for text in paragraphs for line in (prose(" ".join(text.split())), "")]


def _option(option: click.Option, context: click.Context) -> list[str]:
    names, text = option.get_help_record(context) or ("", "")
    return [f".. option:: {names.replace(' / ', ', ')}", "", *indented([prose(text) or "\\", ""])]


def _epilog(command: click.Command) -> list[str]:
    examples = inspect.cleandoc(command.epilog or "").replace("\b", "").strip().splitlines()[1:]
    if not examples:
        return []
    return [".. code-block:: console", "", *indented("$ " + line.strip() for line in examples), ""]


def _page(path: str, command: click.Command, context: click.Context) -> list[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    mark = "-" if path.count(" ") < 2 else "~"
    lines = [f".. _cli-{path.replace(' ', '-')}:", "", *heading(path, mark)]
    lines += [".. code-block:: text", "", f"   {path} {usage}", "", *_help(command), f".. program:: {path}", ""]
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden and "--help" not in option.opts:
            lines += _option(option, context)
    return lines + _epilog(command)


def generate(folder: Path) -> None:
    """Write the page of the command line."""
    pages = list(_walk(commands, "busq"))
    lines = [".. _cli:", "", *heading("Command line")]
    lines += _help(commands)
    lines += [
        "The exit code is 0 where all is well, 1 where the command ran and found something wrong, 2 where it was asked",
        "for something that cannot be, and 130 after Ctrl-C.  Data go to stdout, progress and complaints to stderr.",
        "With ``--json`` a command prints one object instead of tables: :doc:`shapes` lists the keys.",
        "",
    ]
    for path, command, context in pages[1:]:
        lines += _page(path, command, context)
    write(folder / GENERATED / "commands.rst", lines)
