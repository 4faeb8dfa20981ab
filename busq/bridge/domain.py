# SPDX-License-Identifier: Apache-2.0
"""A domain as a whole: making its stream, looking at it, and running one machine's bridge to it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator
from typing import Any

import busq
from busq.bridge import batches
from busq.bridge.bridge import Bridge, Settings, put_out
from busq.bridge.errors import Ended
from busq.bridge.local import Local
from busq.bridge.nats_stream import Again, JetStream, Moved, Server, StreamFull, stream_of, subject_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
QUIET_S = 5.0  # a leader hears of the others each second, and believes that it leads for 17 s without them


def checked_name(what: str, name: str) -> str:
    """Return the name of a domain or a machine; ValueError for what can stand in no subject, or in no sender's name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r}: expected 1 to 64 letters, digits, '-' and '_'")
    return name


def config_of(domain: str, *, replicas: int, storage: str, bytes_max: int) -> Any:
    """Return how a domain's stream is to be: nothing in it ends before a bridge takes it away."""
    from nats.js import api

    return api.StreamConfig(
        name=stream_of(domain),
        subjects=[subject_of(domain, "*")],
        retention=api.RetentionPolicy.LIMITS,
        discard=api.DiscardPolicy.NEW,
        storage=api.StorageType(storage),
        num_replicas=replicas,
        max_bytes=bytes_max,
        max_age=0,
        deny_delete=True,
        duplicate_window=120,
    )


@contextlib.asynccontextmanager
async def _opened(server: Server, domain: str) -> AsyncIterator[JetStream]:
    """A domain's engine, for one question: what is not known then ends the command."""
    engine = await JetStream.open(server, domain)
    try:
        yield engine
    except Again as error:
        raise Ended(f"domain {domain!r}: the server refuses, or does not answer: {error}") from None
    finally:
        await engine.close()


async def make(server: Server, domain: str, *, replicas: int, storage: str, bytes_max: int) -> bool:
    """Make a domain's stream; False where it is there as asked, Ended where it is another."""
    async with _opened(server, domain) as engine:
        asked = config_of(domain, replicas=replicas, storage=storage, bytes_max=bytes_max)
        found = await engine.make(asked)
        wrong = differences(found, asked) if found is not None else []
        if wrong:
            raise Ended(f"domain {domain!r} is there, and is another one: {'; '.join(wrong)}")
        return found is None


def differences(found: Any, asked: Any) -> list[str]:
    """Return in what a stream differs from how it is to be."""
    fields = ["subjects", "retention", "discard", "storage", "num_replicas", "max_bytes", "max_age", "deny_delete"]
    pairs = ((field, getattr(found, field), getattr(asked, field)) for field in fields)
    return [f"{field} is {is_now!r}, expected {expected!r}" for field, is_now, expected in pairs if is_now != expected]


def is_quiet(replica: Any) -> bool:
    """Whether the leader has not heard of another server lately."""
    return bool(replica.offline or (replica.active or 0) > QUIET_S * 1e9)


async def look(server: Server, domain: str) -> dict[str, Any]:
    """Return a domain's stream and its machines, as some leader knows them; Ended where there is none.

    `may_be_old`: that leader has not heard of a majority lately, so another one may lead, and it can store nothing.
    """
    async with _opened(server, domain) as engine:
        info = await engine.info()
        machines = []
        for machine in (await engine.machines())[0]:
            last = await engine.last(machine)
            if last is None:
                continue
            batch = batches.decode(last.payload)
            machines.append(
                {
                    "machine": machine,
                    "is_out": batch.kind == batches.OUT,
                    "epoch": batch.epoch,
                    "last_place": last.place,
                    "resumes_at": batch.low,
                }
            )
        state, cluster, replicas = info.state, info.cluster, info.config.num_replicas
        n_heard = 0 if cluster and not cluster.leader else 1
        if n_heard and cluster:
            n_heard += sum(not is_quiet(one) for one in cluster.replicas or [])
        return {
            "domain": domain,
            "storage": storage_of(info.config),
            "replicas": replicas,
            "leader": cluster.leader if cluster else None,
            "heard_of": n_heard,
            "may_be_old": 2 * n_heard <= replicas,
            "first_place": state.first_seq,
            "last_place": state.last_seq,
            "bytes": state.bytes,
            "max_bytes": info.config.max_bytes,
            "machines": machines,
        }


def storage_of(config: Any) -> str:
    """Return where a stream is kept: "memory" or "file"."""
    return str(getattr(config.storage, "value", config.storage))


async def drop(server: Server, domain: str, machine: str) -> None:
    """Put a machine out by hand: the stream is not kept for it any more.  Ended where it has no word there."""
    async with _opened(server, domain) as engine:
        last = await engine.last(machine)
        if last is None:
            raise Ended(f"domain {domain!r} knows no machine {machine!r}")
        batch = batches.decode(last.payload)
        try:
            if batch.kind != batches.OUT:
                await put_out(engine, last, batch)
        except Moved:
            raise Ended(f"machine {machine!r} has spoken just now: end its bridge first") from None
        except StreamFull as full:
            raise Ended(
                f"the stream has no room for the marker ({full}); expected some: nats stream edit --max-bytes "
                f"{stream_of(domain)}"
            ) from None


async def move_leader(server: Server, domain: str) -> tuple[str, str]:
    """Have another server lead a domain; return the names of both.  Ended where no other has it."""
    async with _opened(server, domain) as engine:
        if (await engine.info()).config.num_replicas == 1:
            raise Ended(f"domain {domain!r} has one replica: no other server can lead it")
        return await engine.move_leader()


async def run(bus: busq.Bus, domain: str, groups: tuple[str, ...], server: Server, settings: Settings) -> None:
    """Bridge a bus until a signal ends it (SIGTERM, SIGINT), or it can't go on: Ended."""
    engine = await JetStream.open(server, domain)
    try:
        local = Local(bus, domain, groups)
        try:
            local.keep_name(settings.machine)
            await _run_until_signal(Bridge(local, engine, settings))
        finally:
            local.close()
    finally:
        await engine.close()


async def _run_until_signal(bridge: Bridge) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    running = asyncio.ensure_future(bridge.run())
    waiting = asyncio.ensure_future(ended.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        running.result()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
