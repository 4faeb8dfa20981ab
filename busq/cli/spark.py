# SPDX-License-Identifier: Apache-2.0
"""`busq spark`: what there is to know about Spark before it has work to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from busq.cli.base import JSON, Group, Number, Refusal, examples, print_json

if TYPE_CHECKING:
    from busq.audit.spark.sessions.ready import Point


@click.group(
    cls=Group, epilog=examples("busq spark check", "busq spark check --master spark://head:7077 /shared/traces")
)
def spark() -> None:
    """See whether a cluster can run audits and sweeps."""


@spark.command(
    epilog=examples(
        "busq spark check",
        "busq spark check --master spark://head:7077 /shared/traces",
        "busq spark check --master sc://head:15002 --json",
    )
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--master", metavar="URL", help="local[N], spark://..., sc://..., k8s://...  [default: $SPARK_REMOTE, or local[*]]"
)
@click.option("--memory", metavar="SIZE", help="The heap of this machine's Java, as 6g.")
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds in which executors have to come.",
)
@JSON
def check(paths: tuple[str, ...], master: str | None, memory: str | None, timeout: float, as_json: bool) -> int:
    """Find in advance what would go wrong on a cluster, and what to do.

    Starts a session, and looks around on the executors: their Python, busq on them, whether they see each PATH, the
    memory they have.  Exit code 1 means that something is missing, 2 that there can be no such master.
    """
    try:
        from busq.audit.spark.sessions import ready

        return _show(ready.check(master, memory, paths, timeout_s=timeout), as_json)
    except (ImportError, ValueError) as error:
        raise Refusal(str(error)) from None


def _show(points: Iterable[Point], as_json: bool) -> int:
    found = list(points if as_json else _told(points))
    ok = all(point.ok for point in found)
    if as_json:
        print_json({"ok": ok, "points": [point.as_json() for point in found]})
    else:
        click.echo("All is well." if ok else "Not ready.")
    return 0 if ok else 1


def _told(points: Iterable[Point]) -> Iterator[Any]:
    for point in points:
        mark = click.style("ok", fg="green") if point.ok else click.style("NO", fg="red", bold=True)
        click.echo(f"{mark}  {point.name:<12}  {point.text}")
        if point.advice:
            click.echo(f"{'':<18}{point.advice}")
        yield point
