# SPDX-License-Identifier: Apache-2.0
"""The engine that carries the order: a stream of NATS JetStream, behind what little a bridge needs of it.

A bridge needs two things: `publish` a payload behind the last one of its machine, or learn that another one stands
there; and `read` all payloads from a place on, each with its place, in order and without a gap.  Whatever else fails is
`Again`: nothing is known, and the bridge tries once more.

The end of the stream is never asked for to know what was delivered: a leader that is cut off answers with an old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from busq._port.wide_protocol import BATCH_BYTES_MAX
from busq.bridge.errors import Ended, Gap
from busq.bridge.notes import note

_STALLED_S = 2.0  # what was stored comes sooner, or its consumer is gone
_CALL_S = 2.0  # a call that has no answer so far is repeated, which is harmless
_POLL_S = 0.01
_ELECTION_S = 30.0
_WITHOUT_LIMIT = 1 << 62
_CREDENTIALS = "BEGIN NATS USER JWT", "BEGIN USER NKEY SEED"  # what stands in a file of them
_WRONG_LAST = {10071, 10164}  # the subject's last message is another than was expected
_NO_ROOM = {10077, 10047, 10023}


class Moved(Exception):
    """Another message stands behind the expected one; nothing was stored."""


class StreamFull(Exception):
    """The stream has no room; nothing was stored."""


class Again(Exception):
    """Nothing is known: it was stored, or it was not."""


class Stored(NamedTuple):
    """A payload at its place."""

    place: int
    machine: str
    payload: bytes


class Facts(NamedTuple):
    """A server, and what the account may use of it; in bytes, of which -1 are without a limit."""

    version: tuple[int, int]
    payload_max: int
    may_use: dict[str, int]  # by storage
    in_use: dict[str, int]


class Server(NamedTuple):
    """How to reach the engine."""

    urls: Sequence[str]
    creds: str | None = None
    tls_ca: str | None = None


async def connect(server: Server, heard: Callable[[Exception], Awaitable[None]]) -> Any:
    """Return a connection, which is made anew for as long as it is not closed; Ended where no server answers.

    `heard` gets the errors that belong to no call.
    """
    import nats  # the extra `bridge`; here, since `busq bridge --help` needs none
    import nats.errors

    options = _options(server)
    try:
        connection = await nats.connect(
            list(server.urls),
            allow_reconnect=False,
            connect_timeout=_CALL_S,
            max_reconnect_attempts=1,
            error_cb=_pass_by,
            **options,
        )
        await connection.close()
        return await nats.connect(
            list(server.urls),
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.2,
            connect_timeout=2,
            ping_interval=5,
            max_outstanding_pings=2,
            error_cb=heard,
            **options,
        )
    except (nats.errors.Error, OSError, ValueError) as error:
        raise Ended(
            f"no server answers at {', '.join(server.urls)} ({error or type(error).__name__}): expected a nats-server "
            "with JetStream there"
        ) from None


async def _pass_by(error: Exception) -> None:
    """Write down nothing: what the first attempt ends with is raised."""


def _options(server: Server) -> dict[str, Any]:
    """Return what the client needs of the files that are given; Ended, with the name of one that can't be used."""
    options: dict[str, Any] = {}
    if server.creds:
        if importlib.util.find_spec("nkeys") is None:
            raise Ended("credentials need nkeys: pip install 'busq[bridge]'")
        try:
            text = Path(server.creds).read_text(errors="replace")
        except OSError as error:
            raise Ended(f"{server.creds}: {error.strerror}") from None
        if not all(part in text for part in _CREDENTIALS):
            raise Ended(f"{server.creds}: expected the credentials of a user, as nsc makes them")
        options["user_credentials"] = server.creds
    if server.tls_ca:
        try:
            options["tls"] = ssl.create_default_context(cafile=server.tls_ca)
        except OSError as error:  # those of ssl are such ones as well
            raise Ended(f"{server.tls_ca}: expected certificates in PEM ({error.strerror or error})") from None
    return options


def stream_of(domain: str) -> str:
    """Return the name of the stream."""
    return f"BUSQ_{domain}"


def subject_of(domain: str, machine: str) -> str:
    """Return the subject under which a machine publishes."""
    return f"busq.{domain}.{machine}"


class JetStream:
    """One domain's stream."""

    def __init__(self, domain: str) -> None:
        self._domain, self._stream = domain, stream_of(domain)
        self._due = 0  # the highest place that is known to be stored
        self._denied = ""  # what the server does not let us do
        self._connection: Any = None  # `open` makes them
        self._jetstream: Any = None

    @classmethod
    async def open(cls, server: Server, domain: str) -> JetStream:
        """Connect; Ended where no server answers."""
        self = cls(domain)
        self._connection = await connect(server, self._heard)
        self._jetstream = self._connection.jetstream(timeout=_CALL_S)
        return self

    async def _heard(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if "permissions violation" in text.lower():
            self._denied = text  # the call that it belongs to gets no answer: its timeout finds this
        else:
            note(text)

    def _check(self) -> None:
        """Raise Ended where asking again can't help."""
        if self._denied:
            raise Ended(f"the server does not allow what a bridge does: {self._denied}; the account's user needs it")
        if self._connection.is_closed:
            reason = self._connection.last_error or "for no reason given"
            raise Ended(f"the server has ended the connection ({reason}): expected credentials that are valid")

    def _failed(self, error: BaseException) -> Again:
        """Return Again with an error's text; raise Ended where asking again can't help."""
        self._check()
        return Again(str(error) or type(error).__name__)

    async def close(self) -> None:
        """Leave the servers."""
        with contextlib.suppress(Exception):
            await self._connection.close()

    async def publish(self, machine: str, payload: bytes, expected: int, name: str) -> int:
        """Store a payload behind the machine's last one, whose place is `expected`; return its place.

        Raises Moved, StreamFull or Again.
        """
        import nats.errors
        from nats.js import errors

        headers = {"Nats-Expected-Last-Subject-Sequence": str(expected), "Nats-Msg-Id": name}
        try:
            stored = await self._jetstream.publish(
                subject_of(self._domain, machine), payload, timeout=_CALL_S, stream=self._stream, headers=headers
            )
        except errors.APIError as error:
            if error.err_code in _WRONG_LAST:
                raise Moved from None
            if error.err_code in _NO_ROOM:
                raise StreamFull(str(error.description)) from None
            raise Again(str(error.description)) from None
        except nats.errors.MaxPayloadError:
            raise Ended(
                f"the server does not take a batch of {len(payload):,} bytes: expected max_payload {BATCH_BYTES_MAX:,} "
                "or more"
            ) from None
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._failed(error) from None
        self._due = max(self._due, stored.seq)
        return int(stored.seq)

    async def last(self, machine: str) -> Stored | None:
        """Return a machine's last payload; None if it has none in the stream.  Raises Again."""
        return await self._message(subject=subject_of(self._domain, machine))

    async def at(self, place: int) -> Stored | None:
        """Return the payload at a place; None if it is not in the stream.  Raises Again."""
        return await self._message(seq=place)

    async def _message(self, **which: Any) -> Stored | None:
        import nats.errors
        from nats.js import errors

        try:
            found = await self._jetstream.get_msg(self._stream, **which)
        except errors.NotFoundError as error:
            if error.err_code == 10037:  # no message of that subject; without the stream it is another number
                return None
            raise Again(str(error.description)) from None
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._failed(error) from None
        return Stored(found.seq, found.subject.rpartition(".")[2], found.data or b"")

    async def ends(self) -> tuple[int, int]:
        """Return the first and the last place, as some leader knows them.  Raises Again."""
        state = (await self.info()).state
        return state.first_seq, state.last_seq

    async def room(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there may be, as some leader knows them.  Raises Again."""
        info = await self.info()
        most = info.config.max_bytes if info.config.max_bytes > 0 else _WITHOUT_LIMIT
        return most - info.state.bytes, most

    async def info(self, subjects: bool = False) -> Any:
        """Return what the server knows of the stream.  Raises Again."""
        import nats.errors

        try:
            return await self._jetstream.stream_info(self._stream, subjects_filter=">" if subjects else None)
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._failed(error) from None

    async def machines(self) -> tuple[list[str], int]:
        """Return the machines that have something in the stream, and its last place; any other's lie behind that.

        Raises Again.
        """
        state = (await self.info(subjects=True)).state
        return sorted(subject.rpartition(".")[2] for subject in state.subjects or {}), state.last_seq

    async def make(self, config: Any) -> Any | None:
        """Make the stream; return how the one is that is there, if there is one.  Raises Again."""
        import nats.errors
        from nats.js import errors

        try:
            try:
                return (await self._jetstream.stream_info(self._stream)).config
            except errors.NotFoundError:
                await self._jetstream.add_stream(config)
                return None
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._failed(error) from None

    async def move_leader(self) -> tuple[str, str]:
        """Have another server lead; return the one that led, and the one that leads.  Raises Again."""
        before = (await self.info()).cluster.leader
        await self._command("STREAM.LEADER.STEPDOWN")
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _ELECTION_S
        while loop.time() < end_s:
            with contextlib.suppress(Again):  # while none leads, there is no answer
                cluster = (await self.info()).cluster
                if cluster.leader not in (None, "", before):
                    return before, cluster.leader
            await asyncio.sleep(_POLL_S)
        raise Again(f"{before} still leads: the other servers are behind, or gone")

    async def _command(self, verb: str) -> None:
        """Call what the client has no method for."""
        import nats.errors

        try:
            reply = await self._connection.request(f"$JS.API.{verb}.{self._stream}", b"", timeout=_CALL_S)
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._failed(error) from None
        refused = json.loads(reply.data).get("error")
        if refused:
            raise Again(str(refused.get("description", refused)))

    async def facts(self) -> Facts:
        """Return the facts of the server and of the account.  Raises Again."""
        import nats.errors

        try:
            account = await self._jetstream.account_info()
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._failed(error) from None
        version, limits = self._connection.connected_server_version, account.limits
        return Facts(
            (version.major, version.minor),
            self._connection.max_payload,
            {"memory": limits.max_memory, "file": limits.max_storage},
            {"memory": account.memory, "file": account.storage},
        )

    async def try_consumer(self) -> None:
        """Read nothing, as a bridge would.  Raises Again."""
        async with self._consumer(1):
            await self._connection.flush(timeout=_CALL_S)
        self._check()

    async def purge_below(self, place: int) -> None:
        """Take away what stands before a place.  Raises Again."""
        import nats.errors

        try:
            await self._jetstream.purge_stream(self._stream, seq=place)
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._failed(error) from None

    async def read(self, place: int) -> AsyncIterator[Stored]:
        """Yield what is stored from a place on, each place once and in order, for ever; Gap where one is missing.

        A consumer that leaves places out, or does not bring what is known to be stored, is made anew.
        """
        expected, was_gap = place, False
        while True:
            async with self._consumer(expected) as subscription:
                while True:
                    found = await self._next(subscription)
                    if found is None:
                        if self._due >= expected:
                            break
                        continue
                    if found.place < expected:
                        continue
                    if found.place > expected:
                        if was_gap:
                            raise Gap(
                                f"place {expected} of domain {self._domain!r} is not in the stream any more: "
                                f"what comes next stands at {found.place}"
                            )
                        was_gap = True
                        break
                    was_gap = False
                    expected += 1
                    yield found

    async def _next(self, subscription: Any) -> Stored | None:
        import nats.errors

        try:
            message = await subscription.next_msg(timeout=_STALLED_S)
        except (nats.errors.Error, asyncio.TimeoutError):
            self._check()
            return None
        return Stored(message.metadata.sequence.stream, message.subject.rpartition(".")[2], message.data)

    @contextlib.asynccontextmanager
    async def _consumer(self, place: int) -> AsyncIterator[Any]:
        import nats.errors
        from nats.js import api

        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=max(1, place),
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=30.0,
            flow_control=True,
            idle_heartbeat=5.0,
        )
        subscription = None
        while subscription is None:
            try:
                subscription = await self._jetstream.subscribe(
                    subject_of(self._domain, "*"), stream=self._stream, config=config, manual_ack=True
                )
            except (nats.errors.Error, OSError, asyncio.TimeoutError):
                self._check()
                await asyncio.sleep(0.2)
        try:
            yield subscription
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()
