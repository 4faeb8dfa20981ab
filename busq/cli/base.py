# SPDX-License-Identifier: Apache-2.0
"""Shared by all commands: exit codes, errors in a line, types and options of the command line."""

from __future__ import annotations

import codecs
import contextlib
import functools
import importlib
import io
import json
import math
import os
import re
import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

import busq
from busq._util.files import leads_out, naming

if TYPE_CHECKING:
    from click import ParamType as ParamType

    from busq.lab.workload import Schedule
else:

    class ParamType(click.ParamType):
        """That of Click; in older versions it has no parameter."""

        __class_getitem__ = classmethod(lambda cls, kind: cls)


EXAMPLE_MARK = "\b\n"  # Click leaves the lines of such a paragraph alone


class Number(click.FloatRange):
    """A number in a range; nan, which no comparison leaves out, is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a float, or fail."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail("nan is not a number", param, ctx)
        return found


class Failure(click.ClickException):
    """The command ran and found something wrong."""

    exit_code = 1


class Refusal(click.ClickException):
    """The command was asked for something that cannot be."""

    exit_code = 2


class Output(io.FileIO):
    """A standard stream that cannot stop a command: the command does the rest of its work, and writes all its files.

    A reader that has seen enough, as in `busq audit ... | head -1`, is no fault: the exit code is that of the verdict.
    A failure for another reason, as on a full disk, is reported at the end.
    """

    fault: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or, once that has failed, take no notice."""
        try:
            return super().write(data)
        except OSError as error:
            self._discard()
            self.fault = error
            return memoryview(data).nbytes

    def _discard(self) -> None:
        """Lead the descriptor to the null device: children, and Python when it ends, write to it as well."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


_OUTPUTS: dict[str, Output] = {}  # what stands under sys.stdout and sys.stderr


def _has_all_letters(stream: Any) -> bool:
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name.startswith("utf")


def outlive_readers() -> None:
    """Let the command go on where stdin can't be read, or stdout or stderr not be written, or not with every letter."""
    if sys.stdin is None:  # it was closed before we began
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            continue
        stream.flush()
        _OUTPUTS[name] = Output(stream.fileno(), "w", closefd=False)
        errors = stream.errors if _has_all_letters(stream) else "backslashreplace"
        options = {"encoding": stream.encoding, "errors": errors, "line_buffering": stream.line_buffering}
        buffer = io.BufferedWriter(_OUTPUTS[name])
        setattr(sys, name, io.TextIOWrapper(buffer, write_through=stream.write_through, **options))


def is_read() -> bool:
    """Return whether stdout may still have a reader: nothing else ends a command that prints until it is stopped."""
    stdout = _OUTPUTS.get("stdout")
    if stdout is None:  # closed from the beginning, or a file in memory
        return True
    watched = select.poll()
    watched.register(stdout.fileno(), 0)  # asks for errors alone: a pipe has one once its last reader has gone
    return stdout.fault is None and not watched.poll(0)


def _unwritten() -> bool:
    """Report what kept stdout from being written, unless it was the reader; return whether it was something else."""
    stdout = _OUTPUTS.get("stdout")
    if stdout is None:
        return False
    sys.stdout.flush()
    if stdout.fault is None or isinstance(stdout.fault, BrokenPipeError):
        return False
    click.echo(f"busq: standard output: {os_error(stdout.fault)}", err=True)
    return True


class Group(click.Group):
    """A group of commands; without one of them its help goes to stderr, and the exit code is 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help where nothing is asked for."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)


class Commands(Group):
    """A group whose errors are one line on stderr, and whose exit codes are those that busq.cli promises.

    `sections` lists the titles under which the help shows the commands, in order, and for each command where it stands
    ("module:object"); that file is imported when the command is asked for.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, str]], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._sections = sections
        self._places = {name: place for places in sections.values() for name, place in places.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write down the commands by sections."""
        width = max(map(len, self._places))
        for title, places in self._sections.items():
            commands = [command for name in places if (command := self.get_command(ctx, name)) is not None]
            with formatter.section(title):
                formatter.write_dl([(f"{one.name:{width}}", one.get_short_help_str(limit=200)) for one in commands])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now."""
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

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
        failed = _unwritten()
        sys.exit(code or 2 * failed)


def one_line(error: click.ClickException) -> str:
    """Return the text of an error, without line breaks."""
    return " ".join(error.format_message().split())


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what may go wrong with a bus into a line and an exit code."""
    try:
        yield
    except (OSError, busq.BusqError) as error:
        raise Failure(error_text(error)) from None
    except ValueError as error:
        raise Refusal(str(error)) from None


@contextlib.contextmanager
def no_space_refused() -> Iterator[None]:
    """Turn a search for which there is no room into exit code 2: nothing was found.  Name options, not parameters."""
    try:
        yield
    except ValueError as error:
        raise Refusal(re.sub(r"^[a-z_]+(?= is |: )", _as_option, str(error))) from None
    except busq.NoSpace as error:
        raise Refusal(error.strerror or str(error)) from None


def _as_option(match: re.Match[str]) -> str:
    context = click.get_current_context()
    return f"--{match[0].replace('_', '-')}" if match[0] in context.params else match[0]


def os_error(error: OSError) -> str:
    """Return the text of a system error, with the file that it is about."""
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text


def error_text(error: OSError | busq.BusqError) -> str:
    """Return the text of an error; of the system's, with the file that it is about."""
    return os_error(error) if isinstance(error, OSError) else str(error)


class Size(ParamType[int]):
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


def check_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a file without a name: what a variable that is not set leaves of it."""
    if value == "":
        raise click.BadParameter("a file needs a name", ctx, param)
    return value


def check_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse, before a long run, a file that can't be written."""
    check_name(ctx, param, value)
    if value is None:
        return None
    directory = os.path.dirname(value) or "."
    if os.path.isdir(value):
        raise click.BadParameter(f"{value} is a directory", ctx, param)
    if not leads_out(value) and not (os.path.isdir(directory) and os.access(directory, os.W_OK)):
        raise click.BadParameter(f"{value}: {directory} is no directory that can be written to", ctx, param)
    if os.path.exists(value) and not os.access(value, os.W_OK):
        raise click.BadParameter(f"{value} can't be written", ctx, param)
    return value


def check_folder(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a folder without a name: the one where the command was called is "."."""
    if value == "":
        raise click.BadParameter("a folder needs a name", ctx, param)
    return value


def check_picture(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse, before a long run, a picture that can't be written."""
    from busq.lab import picture_path

    check_file(ctx, param, value)
    fault = picture_path.fault(value) if value else None
    if fault:
        raise click.BadParameter(fault, ctx, param)
    return value


def split(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Read names separated by commas."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def split_orders(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Read names of orders separated by commas, each perhaps with options: "bus1:unicast=direct,estimate=best"."""
    if value is None:
        return None
    names: list[str] = []
    for word in split(ctx, param, value) or ():
        if names and ":" in names[-1] and "=" in word and ":" not in word:
            names[-1] += f",{word}"
        else:
            names.append(word)
    return names


option = functools.partial(click.option, show_default=True)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
TIMEOUT = Number(min=0)


def patience(default_s: float) -> Callable[[Any], Any]:
    """Return the option of a command that waits for processes of its own."""
    return option(
        "--patience",
        type=Number(min=0, min_open=True),
        default=default_s,
        metavar="SECONDS",
        help="How long processes may do nothing, though they could, before they are given up.",
    )


PATIENCE = patience(10.0)


def examples(*lines: str) -> str:
    """Return examples as the end of a help text."""
    return EXAMPLE_MARK + "Examples:\n" + "\n".join(f"  {line}" for line in lines)


def print_json(facts: Any) -> None:
    """Print one object, on a line."""
    click.echo(json.dumps(facts, ensure_ascii=not _has_all_letters(sys.stdout)))


def finish(result: Any, as_json: bool, show: Callable[[Any], None]) -> int:
    """Print a result, as JSON or by `show`, and return the exit code: 1 where it is not `ok`."""
    if as_json:
        print_json(result.as_json())
    else:
        show(result)
    return 0 if result.ok else 1


def wrote(path: str) -> None:
    """Report a new file on stderr."""
    click.echo(f"wrote {path}", err=True)


def leave_at_once(code: int) -> NoReturn:
    """End while threads still judge: ended by Python, those that come back from C++ would abort the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def write_text(path: str, text: str) -> None:
    """Write a file, and report it."""
    with plain_errors(), naming(path), open(path, "w", encoding="utf-8") as file:
        file.write(text)
    wrote(path)


def read_schedule(path: str, size_bytes: int) -> Schedule:
    """Read the messages of a file: a schedule, or a log of sends; what is neither is refused."""
    from busq.lab import workload

    with plain_errors():
        try:
            return workload.read(path, size_bytes=size_bytes)
        except workload.OtherColumns as error:
            return _read_log(path, size_bytes, str(error))
        except workload.ScheduleError as error:
            raise Refusal(str(error)) from None


def _read_log(path: str, size_bytes: int, reason: str) -> Schedule:
    """Read the sends of a log; `reason` why it is no schedule, for what is no log either."""
    from busq.lab import workload

    try:
        from busq.trace import TraceError
        from busq.trial import recorded

        return recorded.schedule(path, size_bytes=size_bytes)
    except (ImportError, TraceError):
        raise Refusal(reason) from None
    except workload.ScheduleError as error:
        raise Refusal(str(error)) from None


def together(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of judged runs; a property is judged over those that claim it, or over all where none does."""
    verdicts: dict[str, Any] = {}
    for name in runs[0]["verdicts"] if runs else ():
        mine = [run["verdicts"][name] for run in runs]
        judged = [verdict for verdict in mine if verdict["claimed"]] or mine
        verdicts[name] = {
            "ok": all(verdict["ok"] for verdict in judged),
            "count": sum(verdict["count"] for verdict in judged),
            "claimed": any(verdict["claimed"] for verdict in mine),
        }
    return {key: sum(run[key] for run in runs) for key in ("messages", "deliveries")} | {"verdicts": verdicts}
