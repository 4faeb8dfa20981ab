# SPDX-License-Identifier: Apache-2.0
"""What all commands share: exit codes, errors in a line, types and options of the command line."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

import busq

EXAMPLE_MARK = "\b\n"  # tells Click to leave the lines of a paragraph alone


class Failure(click.ClickException):
    """The command ran and found something wrong."""

    exit_code = 1


class Refusal(click.ClickException):
    """The command was asked for something that cannot be."""

    exit_code = 2


class Commands(click.Group):
    """A group whose errors are one line on stderr, and whose exit codes are those that busq.cli promises.

    `elsewhere` says of commands that have a file of their own where they stand ("module:object"); that file is
    imported when the command is asked for, so that `busq ls` does not wait for what only `busq sim` uses.
    """

    def __init__(self, *args: Any, elsewhere: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._elsewhere = dict(elsewhere or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self._elsewhere})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now if it stands elsewhere."""
        place = self._elsewhere.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place.partition(":")
        found: click.Command = getattr(importlib.import_module(module), name)
        return found

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run, and leave with an exit code (or, not standalone, return or raise as Click does)."""
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        try:
            code = run(*args, standalone_mode=False, **extra)
        except click.Abort:
            code = 130
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "busq"
            click.echo(f"{path}: {one_line(error)} (try {path} --help)", err=True)
            code = error.exit_code
        except click.ClickException as error:
            click.echo(f"busq: {one_line(error)}", err=True)
            code = error.exit_code
        except BrokenPipeError:
            # Whoever read our output has seen enough.  What is still buffered must not fail again when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        sys.exit(code)


def one_line(error: click.ClickException) -> str:
    """Return what an error says, without line breaks."""
    return " ".join(error.format_message().split())


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what may go wrong with a bus into a line and an exit code."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(os_error(error)) from None
    except busq.BusqError as error:
        raise Failure(str(error)) from None
    except ValueError as error:
        raise Refusal(str(error)) from None


if TYPE_CHECKING:
    IntType = click.ParamType[int]
else:
    IntType = click.ParamType  # in older versions of Click it has no parameter


def os_error(error: OSError) -> str:
    """What the system says, and about which file."""
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text


class Size(IntType):
    """A number of bytes: 65536, 64K, 16M, 1G."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail as Click's types do."""
        if isinstance(value, int):
            return value
        text = value.strip().upper()
        factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        digits = text if factor == 1 else text[:-1]
        if not digits.isascii() or not digits.isdigit():
            self.fail(f"{value!r}: expected bytes, like 65536, 64K, 16M or 1G", param, ctx)
        return int(digits) * factor


def check_picture(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse, before a long run, a picture that can't be written."""
    from busq import picture

    fault = picture.fault(value) if value else None
    if fault:
        raise click.BadParameter(fault, ctx, param)
    return value


def check_number(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Refuse what is no number."""
    if math.isnan(value):  # is in every range
        raise click.BadParameter("nan is not a number", ctx, param)
    return value


def split(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Read names separated by commas."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
TIMEOUT = click.FloatRange(min=0)


def examples(*lines: str) -> str:
    """Return examples as the end of a help text."""
    return EXAMPLE_MARK + "Examples:\n" + "\n".join(f"  {line}" for line in lines)


def print_json(found: Any) -> None:
    """Print one object, on a line."""
    click.echo(json.dumps(found, ensure_ascii=False))
