# SPDX-License-Identifier: Apache-2.0
"""What would be wrong with a domain, before a bridge runs: nothing is stored, and nothing taken away."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from busq._port.wide_protocol import BATCH_BYTES_MAX
from busq.bridge.domain import config_of, differences, is_quiet, storage_of
from busq.bridge.errors import Ended
from busq.bridge.nats_stream import Again, Facts, JetStream, Moved, Server, StreamFull
from busq.bridge.reserve import PART

_VERSION_MIN = (2, 9)
_BEHIND_ALL = (1 << 53) - 1  # a place that no machine's last word has: what is published behind it is refused


class Finding(NamedTuple):
    """One thing that was looked at; `is_good` is None where a client can't know it."""

    what: str
    is_good: bool | None
    text: str


async def check(server: Server, domain: str, machine: str) -> list[Finding]:
    """Return what was found, good and bad; Ended where no server answers."""
    engine = await JetStream.open(server, domain)
    try:
        found = await _check_domain(engine, domain)
    finally:
        await engine.close()
    is_there = any(one.what == "replicas" for one in found)
    return [*found, *(await _check_permissions(server, domain, machine) if is_there else [])]


async def _check_domain(engine: JetStream, domain: str) -> list[Finding]:
    try:
        facts = await engine.facts()
    except (Again, Ended) as error:
        return [Finding("JetStream", False, f"{error}: start the servers with -js, and allow the account to use it")]
    try:
        info = await engine.info()
    except (Again, Ended) as error:
        return [*_check_server(facts), Finding("stream", False, f"{error}; busq bridge init {domain} makes it")]
    return [*_check_server(facts), *_check_stream(domain, info, facts)]


def _check_server(facts: Facts) -> list[Finding]:
    version, expected = (".".join(map(str, one)) for one in (facts.version, _VERSION_MIN))
    needed = BATCH_BYTES_MAX
    return [
        Finding("version", facts.version >= _VERSION_MIN, f"nats-server {version}; at least {expected} is needed"),
        Finding(
            "max_payload",
            facts.payload_max >= needed,
            f"the server takes {facts.payload_max:,} bytes at once; a batch has up to {needed:,}",
        ),
    ]


def _check_stream(domain: str, info: Any, facts: Facts) -> list[Finding]:
    config, storage = info.config, storage_of(info.config)
    asked = config_of(domain, replicas=config.num_replicas, storage=storage, bytes_max=config.max_bytes)
    wrong = differences(config, asked)
    limit, used = facts.may_use[storage], facts.in_use[storage]
    left, kept = config.max_bytes - info.state.bytes, config.max_bytes // PART
    found = [
        Finding("stream", not wrong, "; ".join(wrong) or f"it is as busq bridge init makes it, in {storage}"),
        Finding(
            "room",
            left - kept > BATCH_BYTES_MAX,
            f"{left:,} of {config.max_bytes:,} bytes are free, of which {kept:,} are for the bridges' own words",
        ),
        Finding(
            "account",
            limit < 0 or limit >= config.max_bytes * config.num_replicas,
            f"{used:,} bytes in use, {'without a limit' if limit < 0 else f'of {limit:,}'}",
        ),
        _check_replicas(info),
    ]
    if storage == "file":
        text = "a client can't see sync_interval; without `always` a power failure can take the last two minutes"
        found.append(Finding("power failure", None, text))
    return found


def _check_replicas(info: Any) -> Finding:
    count, cluster = info.config.num_replicas, info.cluster
    if count == 1:
        return Finding("replicas", True, "one: the domain is lost with its server")
    others = (cluster.replicas if cluster else None) or []
    behind = [peer.name for peer in others if is_quiet(peer) or not peer.current]
    leader = cluster.leader if cluster else None
    text = f"{count}, led by {leader or 'none'}" + (f"; behind or gone: {', '.join(behind)}" if behind else "")
    return Finding("replicas", bool(leader) and not behind, text)


def _steps(machine: str) -> dict[str, Callable[[JetStream], Coroutine[Any, Any, Any]]]:
    """What a bridge has to be allowed to do."""
    return {
        "publish": lambda engine: engine.publish(machine, b"", _BEHIND_ALL, uuid.uuid4().hex),
        "last word": lambda engine: engine.last(machine),
        "read": lambda engine: engine.try_consumer(),
        "purge": lambda engine: engine.purge_below(1),
    }


async def _check_permissions(server: Server, domain: str, machine: str) -> list[Finding]:
    found = []
    for what, step in _steps(machine).items():
        engine = await JetStream.open(server, domain)  # one each: it keeps what it was denied
        try:
            await step(engine)
        except (Moved, StreamFull):
            pass  # it came to the stream, which is what was to be seen
        except (Again, Ended) as error:
            found.append(Finding(what, False, str(error)))
            continue
        finally:
            await engine.close()
        found.append(Finding(what, True, "allowed"))
    return found
