# SPDX-License-Identifier: Apache-2.0
"""The command line: `busq`.

Data go to stdout, progress and complaints to stderr.  The exit code is 0 if all is well, 1 if the command ran
and found something wrong, 2 if it was asked for something that cannot be, 130 after Ctrl-C.  A command
whose output is no longer read still does all that it was asked for, and leaves with the same code.  With `--json` it
prints one object instead of tables.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

import click

import busq
from busq.cli.base import Commands, outlive_readers

# A command is imported when it is asked for: `busq ls` should not wait for what only `busq soak` uses.

SECTIONS: dict[str, dict[str, str]] = {
    "The bus": {
        "demo": "busq.cli.replay:demo",
        "create": "busq.cli.buses:create",
        "ls": "busq.cli.buses:list_command",
        "info": "busq.cli.buses:info",
        "top": "busq.cli.top:top",
        "send": "busq.cli.messages:send",
        "recv": "busq.cli.messages:recv",
        "queue": "busq.cli.queue:queue",
        "rm": "busq.cli.buses:rm",
        "doctor": "busq.cli.doctor:doctor",
        "gc": "busq.cli.gc:gc",
        "metrics": "busq.cli.metrics:metrics",
        "bench": "busq.cli.bench:bench",
        "soak": "busq.cli.soak:soak",
        "bridge": "busq.cli.bridge:bridge",
    },
    "Traces": {
        "record": "busq.cli.record:record",
        "audit": "busq.cli.audit:audit",
        "replay": "busq.cli.replay:replay",
        "diagram": "busq.cli.diagram:diagram",
        "spark": "busq.cli.spark:spark",
    },
    "Laboratory": {
        "sim": "busq.cli.sim:sim",
        "check": "busq.cli.check:check",
        "stage": "busq.cli.stage:stage",
        "prove": "busq.cli.prove:prove",
        "sweep": "busq.cli.sweep:sweep",
        "example": "busq.cli.example:example",
        "chat": "busq.cli.chat:chat",
    },
}


@click.group(
    cls=Commands,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(busq.__version__, prog_name="busq")
def commands() -> None:
    """Ordered messages between the processes of one machine.

    Buses live in $BUSQ_DIR, or else in /dev/shm/busq-<uid>.
    """


def _end(number: int, _: Any) -> NoReturn:
    sys.exit(128 + number)


def main() -> NoReturn:
    """Run the command line and leave with its exit code.

    SIGTERM and SIGHUP end it as Ctrl-C does: it cleans up first.
    """
    outlive_readers()
    if not os.environ.get("COLUMNS", "").strip("0"):  # 0: of a terminal without a size; tables would be cut to nothing
        os.environ.pop("COLUMNS", None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    commands.main(prog_name="busq")
    raise AssertionError("unreachable: the command line leaves with an exit code")
