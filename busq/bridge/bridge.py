# SPDX-License-Identifier: Apache-2.0
"""A bridge: publishes what its bus sends to wide groups, and re-sends there what the stream brings.

Guarantee.  Each request is re-sent on every machine at one place of the stream, once, or, if it is withdrawn, never;
a bridge may be killed at any step, and the next one may be, too.

Mechanism.  The rules, each with what happens without it:

  one batch under way, behind the machine's last place   a retry after a lost acknowledgement is stored twice
  a batch is known by bus, epoch and number              a late batch of a dead predecessor fences its successor
  delivery, cursor and reply are one multicast           a kill between two of them loses or doubles a message
  requests before cursor entries                         a successor finds a request and no sign that it was done
  all requests are loaded before anything is re-sent     a request whose batch is found is published once more
  nothing is published before the epoch's own marker     the predecessor's last batch may still come: published twice
  was re-sent here, and not: is stored                   what its sender does next comes before it elsewhere
  full is "not stored" if each publication was answered  an earlier one is stored: the same requests twice
  batches name what their publisher has seen             a stream that came back empty uses places again
  a place is compared before the first word              one of another history ends all bridges of this one
  messages leave room for words                          a full stream takes no word that empties it: full for ever

The machine itself is `Bridge`, without a network: the engine it is given has eight methods (nats_stream.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

from busq._port import wide_protocol
from busq._port.group_members import checked_name
from busq._port.wide_protocol import ENTER, Tail
from busq._port.wide_views import Marker, Member
from busq.bridge import batches
from busq.bridge.batches import Batch, Item
from busq.bridge.errors import Fenced, Gap, OtherHistory
from busq.bridge.local import WHOLE, Local
from busq.bridge.nats_stream import Again, Moved, Stored, StreamFull
from busq.bridge.notes import note
from busq.bridge.reserve import Reserve
from busq.bridge.views import Views, marker_of, out_of

_HISTORY = 4096  # batches whose digests are kept for comparison
_TICKS = 3  # own stored ones, without a word from a machine, after which it is put out
_SHARE = 64  # messages after which other tasks get a turn
_LEAVE_ROOM = batches.DATA, batches.MEMBERS, batches.ASK  # other batches may use the reserve
_FULL_S = 0.2  # between attempts to store in a full stream; requests can be withdrawn meanwhile
_AGAIN_S = 0.05
_AGAIN_MAX_S = 1.0
_STALE_ANSWERS_MAX = 50
_LOOK_S = 0.1  # between looks at the members here

_Key = tuple[int, int]  # of a request: its sender's life, and its number


class Settings(NamedTuple):
    """How a bridge runs."""

    machine: str
    lease_s: float = 20.0
    replaces: bool = False


@dataclass(slots=True)
class _Asked:
    """A request that was not re-sent as a whole so far."""

    message: Any  # in the inbox
    request: wide_protocol.Request
    sender: str
    n_resent: int = 0


class Bridge:
    """One machine's bridge to one domain."""

    def __init__(self, local: Local, engine: Any, settings: Settings) -> None:
        self._local, self._engine = local, engine
        self.machine, self._lease_s = settings.machine, settings.lease_s
        self._replaces = settings.replaces
        self._bus_id = local.bus_id
        self._epoch = self._number = 0
        self._token = secrets.token_hex(4)
        self._expected = 0  # the place of the machine's last batch
        self._leads = asyncio.Event()  # our epoch's marker was read: nothing of a predecessor can come any more
        self._turn = asyncio.Lock()  # one batch under way
        self._open: OrderedDict[_Key, _Asked] = OrderedDict()  # in their order
        self._waiting: deque[_Key] = deque()
        self._under_way: set[_Key] = set()  # in the batch that is
        self._stored: set[_Key] = set()
        self._has_requests = asyncio.Event()
        self._reserve = Reserve(engine)
        self._is_full = ""  # why the stream takes no messages
        self._has_news = False  # messages were re-sent since our last tick: the stream is not kept for them
        self._seen = (0, batches.NO_DIGEST)  # the batch that was re-sent last
        self._history: OrderedDict[int, bytes] = OrderedDict()
        self._done = (0, -1)  # the message that was re-sent last: its place and its index
        self._n_since_pause = 0
        self._starts_new = False  # this bus has followed nothing so far
        self._n_ticks = 0
        self._heard: dict[str, int] = {}  # by machine: how many own ticks were stored when its last word came
        self._views = Views(self.machine, local.members())
        self._may_mark = self._views.is_known  # a successor will know the members as well
        self._held: list[_Key] = []  # markers that wait for that
        self._refused: list[_Key] = []  # whose senders' queues were full
        self._answered_at = -1  # the place of the latest answer's members

    # ---- beginning ----

    def recover(self) -> None:
        """Find out where a predecessor came to, and load what it has left: before anything is re-sent."""
        self._local.bus.repair()
        entries = self._local.entries()
        self._load(self._local.take_requests())
        for _, encoded in entries:
            tail = wide_protocol.read_tail(encoded)
            done = self._open.pop((tail.life, tail.number), None) if tail.is_own and tail.is_last else None
            if done is not None:
                done.message.ack()
        if entries:
            self._local.settle(entries)
        last = self._local.last_tail
        self._starts_new = last is None
        if last is not None:
            self._done = last.place, last.nth
            self._seen = last.place, last.digest
            self._history[last.place] = last.digest
            self._epoch = last.epoch

    async def run(self) -> None:
        """Bridge until cancelled, or until it can't go on: Fenced, Gap, OtherHistory."""
        self.recover()
        await self._take_name()
        if not self._starts_new:
            await self._check_history(*self._seen)
        begins_at = await self._begin_epoch()
        self._views.first = self._done[0] or begins_at
        parts = self._reads(self._views.first), self._asks(), self._publishes(), self._ticks(), self._looks()
        tasks = [asyncio.ensure_future(part) for part in (*parts, self._reserve.looks())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_name(self) -> None:
        """Learn the machine's last word; Fenced while another bus speaks under its name."""
        last = await self._last()
        if last is None:
            return
        place, batch = last
        is_other = batch.bus_id != self._bus_id and batch.kind != batches.OUT
        if is_other and not self._replaces:
            await self._wait_for_silence(place)
        self._expected = place
        self._epoch = max(self._epoch, batch.epoch)

    async def _begin_epoch(self) -> int:
        """Store our marker, behind which nothing of a predecessor can be stored; return its place."""
        self._epoch += 1
        kind = batches.NEW if self._starts_new else batches.EPOCH
        n_refused = 0
        while not (place := await self._publish(kind)):
            if not n_refused:
                note(f"the stream of domain {self._local.domain!r} takes not even the word that a bridge begins")
            n_refused += 1
            await asyncio.sleep(_FULL_S)
        return place

    async def _check_history(self, place: int, digest: bytes) -> None:
        """Refuse a stream that is not the one of before: our first word would end the bridges that follow it."""
        n_stale = 0
        while n_stale < _STALE_ANSWERS_MAX:
            with contextlib.suppress(Again):
                if place < (await self._engine.ends())[0]:
                    raise Gap(f"place {place} of domain {self._local.domain!r} is not in the stream any more")
                stored = await self._engine.at(place)
                if stored is not None:
                    return self._compare(place, batches.digest_of(stored.payload))
                n_stale += 1
            await asyncio.sleep(_AGAIN_S)
        raise OtherHistory(
            f"the stream of domain {self._local.domain!r} ends before place {place}, which this machine has re-sent: "
            "it was made anew, or came back empty"
        )

    async def _wait_for_silence(self, place: int) -> None:
        note(f"machine {self.machine!r} was another bus so far; waiting {self._lease_s:g} s for a word of it")
        await asyncio.sleep(self._lease_s)
        last = await self._last()
        if last is not None and last[0] != place:
            raise Fenced(
                f"another bus is machine {self.machine!r} of this domain, and runs: give this one another name, or "
                "take its place with --replace"
            )

    async def _last(self) -> tuple[int, Batch] | None:
        while True:
            try:
                last = await self._engine.last(self.machine)
            except Again:
                await asyncio.sleep(_AGAIN_S)
                continue
            return None if last is None else (last.place, batches.decode(last.payload))

    # ---- requests ----

    def _load(self, messages: list[Any]) -> None:
        for message in messages:
            try:
                request = wide_protocol.read_request(message.data)
                if request.reply_to:
                    checked_name(request.reply_to)
                if request.what in wide_protocol.MARKERS:
                    marker_of(request.what, "", "", 0, request.body)
            except (ValueError, TypeError, OverflowError, RecursionError):
                message.ack()  # of a stranger, which knows the name of the queue
                continue
            key = message.sender_life, request.number
            if request.what == wide_protocol.WITHDRAW:
                self._withdraw(key, message, request)
            else:  # also what is refused: a predecessor may have stored it
                self._open[key] = _Asked(message, request, message.sender)
                self._waiting.append(key)
        if self._waiting:
            self._has_requests.set()

    def _why_refused(self, item: Item) -> str:
        """Return why a request is never published; "" for one that is."""
        if item.what != wide_protocol.DEATH and item.group not in self._local.groups:
            return f"the bridge of domain {self._local.domain!r} runs without group {item.group!r}: --group it"
        if item.what == ENTER and self._views.are_full:
            return self._views.why_full(self._local.domain)
        size = batches.item_bytes(item)
        return "" if size <= batches.ITEMS_BYTES_MAX else f"a request of {size:,} bytes is too large for a batch"

    def _refuse(self, key: _Key, text: str) -> None:
        """Answer, and only then forget: a successor, or the next look, answers what this one could not."""
        asked = self._open[key]
        if self._local.answer(asked.request, wide_protocol.REFUSED, text=text, instead=asked.sender):
            del self._open[key]
            asked.message.ack()
        else:
            self._refused.append(key)

    def _withdraw(self, key: _Key, message: Any, request: wide_protocol.Request) -> None:
        """Forget a request that can't have been published, or answer what became of it."""
        asked = self._open.get(key)
        if asked is not None:
            why = self._is_full
            if key in self._stored:
                what, why = wide_protocol.STORED, self._local.why_full()
            elif key in self._under_way or not self._leads.is_set():
                what = wide_protocol.OPEN
            else:
                what = wide_protocol.WITHDRAWN
                del self._open[key]
                asked.message.ack()
            self._local.answer(request, what, asked.n_resent, why)
        message.ack()

    async def _asks(self) -> None:
        """Take requests as they come."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        descriptor = self._local.inbox.fileno()
        loop.add_reader(descriptor, ready.set)
        try:
            while True:
                messages = self._local.take_requests()
                if messages:
                    self._load(messages)
                    await asyncio.sleep(0)
                else:
                    ready.clear()
                    await ready.wait()
        finally:
            loop.remove_reader(descriptor)

    # ---- publishing ----

    async def _publishes(self) -> None:
        await self._leads.wait()
        if not self._views.is_known:
            await self._publish(batches.ASK)
        while True:
            await self._has_requests.wait()
            self._has_requests.clear()
            await self._answer()
            while self._waiting:
                await self._publish_requests()
                await self._answer()

    async def _answer(self) -> None:
        """Answer a machine that has asked for the members, once for each place that is re-sent."""
        place = self._seen[0]
        if self._views.is_asked and place != self._answered_at and await self._publish(batches.MEMBERS):
            self._answered_at = place

    async def _publish_requests(self) -> None:
        items = self._next_items()
        keys = [(item.life, item.number) for item in items]
        self._under_way = set(keys)
        if items and await self._publish(batches.DATA, tuple(items)):
            self._stored |= self._under_way & self._open.keys()
        else:
            self._waiting.extendleft(reversed(keys))
        self._under_way = set()
        if self._is_full:
            await asyncio.sleep(_FULL_S)

    def _next_items(self) -> list[Item]:
        """Take from the requests that wait as many as a batch may hold."""
        items: list[Item] = []
        left_bytes = batches.ITEMS_BYTES_MAX
        while self._waiting:
            key = self._waiting[0]
            if key in self._open:  # it was not withdrawn
                request, sender = self._open[key].request, self._open[key].sender
                if request.what in wide_protocol.MARKERS and not self._may_mark:
                    self._held.append(self._waiting.popleft())
                    continue
                item = Item(request.what, *key, sender, request.group, request.n_messages, request.body)
                if why := self._why_refused(item):
                    self._refuse(self._waiting.popleft(), why)
                    continue
                left_bytes -= batches.item_bytes(item)
                if items and left_bytes < 0:
                    break
                items.append(item)
            self._waiting.popleft()
            if items and items[-1].what in wide_protocol.MARKERS:
                break  # a place has one marker, at its end
        return items

    async def _publish(self, kind: int, items: tuple[Item, ...] = ()) -> int:
        """Store a batch behind the last one; return its place.  0: there was no room, and nothing was stored."""
        async with self._turn:
            self._number += 1
            low = self._local.last_tail.place if self._local.last_tail else 0
            if kind == batches.MEMBERS:  # here, since they belong to what was re-sent last
                body = wide_protocol.whole_body(self._views.encoded())
                items = (Item(wide_protocol.VIEW, 0, 0, "", "", 1, body),)
            batch = Batch(kind, self._bus_id, self._epoch, self._number, *self._seen, low, items)
            payload = batches.encode(batch)
            if kind in _LEAVE_ROOM and not await self._reserve.takes(len(payload)):
                self._note_full(kind, "what is left is for the bridges' own words")
                return 0
            place = await self._store(batch, payload)
            self._expected = place or self._expected
            return place

    def _note_full(self, kind: int, why: str) -> None:
        if kind == batches.DATA:  # words may go where messages do not
            self._is_full = why and f"full: the stream of domain {self._local.domain!r} ({why})"

    async def _store(self, batch: Batch, payload: bytes) -> int:
        name = self._id_of(batch)
        pause_s, n_stale, is_noted = _AGAIN_S, 0, False
        is_answered = True  # each time so far: a publication without an answer may still be stored
        while True:
            try:
                place: int = await self._engine.publish(self.machine, payload, self._expected, name)
            except Moved:
                found = await self._where(batch, n_stale)
                if found:
                    self._note_full(batch.kind, "")
                    return found
                n_stale += 1
            except StreamFull as full:
                self._note_full(batch.kind, str(full))
                if is_answered or (batch.kind in _LEAVE_ROOM and await self._take_place_of(batch)):
                    return 0
            except Again as again:
                is_answered = False
                if pause_s == _AGAIN_MAX_S and not is_noted:
                    note(f"domain {self._local.domain!r}: the servers store nothing: {again}")
                    is_noted = True
            else:
                self._note_full(batch.kind, "")
                return place
            await asyncio.sleep(pause_s)
            pause_s = min(_AGAIN_MAX_S, pause_s * 2)

    def _id_of(self, batch: Batch) -> str:
        """Return by what the server knows a batch again: not one of a predecessor of the same name, long taken away."""
        return f"{batch.bus_id.hex()}-{batch.epoch}-{batch.number}-{self._token}"

    async def _take_place_of(self, batch: Batch) -> bool:
        """Store an empty batch where one would stand that may be stored, and then never is: so our ticks go on."""
        self._number += 1
        empty = Batch(batches.DATA, self._bus_id, self._epoch, self._number, *self._seen, batch.low)
        with contextlib.suppress(Moved, StreamFull, Again):
            self._expected = await self._engine.publish(
                self.machine, batches.encode(empty), self._expected, self._id_of(empty)
            )
            return True
        return False

    async def _where(self, batch: Batch, n_stale: int) -> int:
        """Return the place of a batch that was stored before; 0: it was not, and may be tried again."""
        found = await self._last()
        if found is None:
            if self._expected and n_stale > _STALE_ANSWERS_MAX // 10:
                await self._explain_silence()
            return 0
        place, last = found
        if last.kind == batch.kind and last.name == batch.name:  # what puts it out has the name of its next one
            return place
        if last.kind == batches.OUT:
            await self._let_reader_end()
        self._check_fence(last)
        if place > self._expected:
            self._expected = place  # a predecessor's last one: our marker comes behind it
        elif place < self._expected and n_stale > _STALE_ANSWERS_MAX:
            raise OtherHistory(
                f"the last batch of machine {self.machine!r} stands at {place}, and stood at {self._expected}: the "
                "stream is another one"
            )
        return 0

    async def _explain_silence(self) -> None:
        """Raise the reason why the stream has nothing of this machine, which has published."""
        with contextlib.suppress(Again):
            if (await self._engine.ends())[1] >= self._expected:
                await self._let_reader_end()
                raise Fenced(f"machine {self.machine!r} was put out, since it was silent: start it again")
            raise OtherHistory(
                f"the stream of domain {self._local.domain!r} ends before {self._expected}, where this machine's last "
                "batch stood: it was made anew, or came back empty"
            )

    async def _let_reader_end(self) -> None:
        """Wait for the reader, if it has begun: it sends the members here their last view, and raises Fenced."""
        if self._views.first:
            await asyncio.sleep(self._lease_s)  # behind that, it is held up

    def _check_fence(self, last: Batch) -> None:
        if last.kind == batches.OUT:
            raise Fenced(f"machine {self.machine!r} was put out, since it was silent: start it again")
        if last.epoch > self._epoch or (last.epoch == self._epoch and last.bus_id != self._bus_id):
            raise Fenced(f"another bridge has taken over as machine {self.machine!r}")

    # ---- re-sending ----

    async def _reads(self, first: int) -> None:
        async for stored in self._engine.read(first):
            await self._apply(stored)

    async def _apply(self, stored: Stored) -> None:
        digest = batches.digest_of(stored.payload)
        self._compare(stored.place, digest)
        batch = batches.decode(stored.payload)
        self._compare(batch.seen_place, batch.seen_digest)
        self._heard[stored.machine] = self._n_ticks
        if stored.machine == self.machine and batch.kind != batches.OUT:
            self._read_own(stored, batch)
        if not self._starts_new:
            await self._resend_all(stored, batch, digest)
        members = self._hear_of_members(stored, batch)
        self._seen = stored.place, digest
        self._history[stored.place] = digest
        if len(self._history) > _HISTORY:
            self._history.popitem(last=False)
        self._has_news = self._has_news or batch.kind == batches.DATA
        if members or (self._is_own(stored, batch) and batch.kind != batches.DATA):
            await self._note_progress(members)
        if members:
            self._let_markers_go()
        if stored.machine == self.machine and batch.kind == batches.OUT:
            self._read_own(stored, batch)

    def _let_markers_go(self) -> None:
        self._may_mark = True
        self._waiting.extendleft(reversed(self._held))
        self._held.clear()
        self._has_requests.set()

    def _is_own(self, stored: Stored, batch: Batch) -> bool:
        return stored.machine == self.machine and batch.bus_id == self._bus_id and batch.kind != batches.OUT

    def _compare(self, place: int, digest: bytes) -> None:
        known = self._history.get(place)
        if known is not None and known != digest:
            raise OtherHistory(
                f"place {place} of domain {self._local.domain!r} holds another batch than this machine has re-sent: "
                "the stream was made anew, or came back empty"
            )

    def _read_own(self, stored: Stored, batch: Batch) -> None:
        if not self._is_own(stored, batch):
            if self._leads.is_set():
                self._check_fence(batch)
            return
        if batch.epoch > self._epoch:
            self._check_fence(batch)
        if batch.epoch == self._epoch and batch.kind in batches.BEGINS:
            self._starts_new = False  # what comes from here on is ours
            self._leads.set()
        if batch.epoch == self._epoch and batch.kind == batches.TICK:
            self._n_ticks += 1

    async def _resend_all(self, stored: Stored, batch: Batch, digest: bytes) -> None:
        is_own = self._is_own(stored, batch)
        if batch.kind in (batches.OUT, batches.NEW):
            tail = Tail(stored.place, 0, 0, 0, self._epoch, wide_protocol.VIEW, False, False, digest, stored.machine)
            await self._resend_views("", out_of(stored.machine), tail, None)
        if batch.kind != batches.DATA:
            return
        begin = 0  # how many messages of the batch stand before the item
        for item in batch.items:
            end = begin + item.n_messages
            if (stored.place, end - 1) > self._done or item.what == wide_protocol.DEATH:
                key = item.life, item.number
                asked = self._open.get(key) if is_own else None
                tail = Tail(
                    *(stored.place, begin, *key, self._epoch, item.what, is_own, False, digest),
                    *(f"{stored.machine}/{item.sender}", self._views.key_of(item.group)),
                )
                first = max(0, self._done[1] + 1 - begin) if self._done[0] == stored.place else 0
                if item.what not in wide_protocol.MARKERS:
                    await self._resend_item(item, first, tail, asked)
                else:
                    marker = marker_of(item.what, stored.machine, item.sender, item.life, item.body)
                    is_any = await self._resend_views(item.group, marker, tail, asked)
                    if not is_any and (stored.place, end - 1) > self._done:  # a death is gone through again
                        await self._resend_item(item, 0, tail, asked)
                if asked:
                    self._stored.discard(key)
                if self._n_since_pause >= _SHARE:
                    self._n_since_pause = 0
                    await asyncio.sleep(0)
            begin = end

    async def _resend_item(self, item: Item, first: int, tail: Tail, asked: _Asked | None) -> None:
        """Re-send the messages of an item from one on; `tail` is that of its first one.

        The last one goes to the queue of the sender as well, which is done with all of them then.
        """
        # Also of a group that this bridge runs without: what has members here has to be alike everywhere.
        targets = self._views.targets(item.group) if item.what == wide_protocol.MESSAGE else []
        last = item.n_messages - 1
        await self._resend_part(item, (first, last), tail, self._local.receivers(targets, None), asked)
        to = self._local.receivers(targets, asked.request.reply_to if asked else None)
        await self._resend_part(item, (max(first, last), item.n_messages), tail, to, asked)
        if asked:
            asked.message.ack()
            del self._open[item.life, item.number]

    async def _resend_views(self, group: str, marker: Marker, tail: Tail, asked: _Asked | None) -> bool:
        """Re-send the views that begin at a marker, to members old and new; False where it changes none."""
        is_any = False
        for at, one in enumerate(self._views.groups_of(group)):
            view = self._views.change(tail.place, one, marker)
            if view is not None:
                is_any = True
                to = self._local.receivers(view.targets, asked.request.reply_to if asked else None)
                to.insert(1, self._local.views.name)
                now = tail.of_view(at, self._views.key_of(one))
                await self._resend_part(view.item, (0, 1), now, to, asked)
                self._local.drop_old_views()
        if is_any and asked:
            asked.message.ack()
            del self._open[tail.life, tail.number]
        return is_any

    def _hear_of_members(self, stored: Stored, batch: Batch) -> bytes | None:
        """Ask, answer, or take an answer; return the members, if they are known from here on."""
        is_mine = self._is_own(stored, batch)
        if batch.kind == batches.ASK and not is_mine:
            self._views.hear_question(stored.place, stored.machine)
        elif batch.kind in batches.BEGINS and is_mine and stored.place == 1:
            self._views.begin()
            return self._views.encoded()
        elif batch.kind == batches.MEMBERS and not self._starts_new:
            body = wide_protocol.only_message(batch.items[0].body)
            if self._views.hear_answer(batch.seen_place, body):
                return self._views.encoded()
        if self._views.is_asked:
            self._has_requests.set()
        return None

    async def _resend_part(
        self, item: Item, part: tuple[int, int], tail: Tail, to: list[str | int], asked: _Asked | None
    ) -> None:
        n_before = part[0]
        async for n_resent in self._local.resend(item, part, tail, to):
            self._done = tail.place, tail.nth + n_resent - 1
            self._n_since_pause += n_resent - n_before
            n_before = n_resent
            if asked:
                asked.n_resent = n_resent

    async def _note_progress(self, members: bytes | None) -> None:
        """Write into the cursor that all up to here was re-sent, also where nothing was for this machine."""
        place, digest = self._seen
        tail = Tail(place, WHOLE, 0, 0, self._epoch, wide_protocol.PROGRESS, False, False, digest, self.machine)
        await self._local.note_progress(tail, members)
        self._done = place, WHOLE

    async def _looks(self) -> None:
        """See which members here are dead."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._refused:
                self._waiting.extendleft(reversed(self._refused))
                self._refused.clear()
                self._has_requests.set()
            entering = [
                marker_of(ENTER, self.machine, one.sender, one.message.sender_life, one.request.body)
                for one in self._open.values()
                if one.request.what == ENTER
            ]
            self._local.tell_deaths({*self._views.here(), *(Member(*one[1:]) for one in entering)})

    # ---- ticks: being there, putting out, and making room ----

    async def _ticks(self) -> None:
        await self._leads.wait()
        n_silent = 0
        while True:
            await asyncio.sleep(self._lease_s / _TICKS)
            n_silent += 1
            if self._has_news or n_silent >= await self._reserve.beats():
                n_silent, self._has_news = 0, False
                self._local.drain()  # so that the tick has how far we have come
                await self._publish(batches.TICK)
            if not self._views.is_known:
                await self._publish(batches.ASK)
            with contextlib.suppress(Again):
                await self._make_room()

    async def _make_room(self) -> None:
        """Put out machines that are silent, and take away what every other one has re-sent."""
        machines, end = await self._engine.machines()
        lows, others = [], set()  # others: those that are in
        for machine in machines:
            last = await self._engine.last(machine)
            if last is None:
                continue
            batch = batches.decode(last.payload)
            if batch.kind == batches.OUT:
                continue
            self._heard.setdefault(machine, self._n_ticks)
            if self._n_ticks - self._heard[machine] >= _TICKS and machine != self.machine:
                await self._put_out(last, batch)
            else:
                lows.append(min(batch.low, last.place))
            others.add(machine)
        if self._n_ticks >= _TICKS and self._views.may_answer_itself(others - {self.machine}):
            await self._publish(batches.MEMBERS)
        if lows and (place := min(*lows, end)) > 0:  # a machine that is none of these begins behind the end
            await self._engine.purge_below(place)

    async def _put_out(self, last: Stored, batch: Batch) -> None:
        """Fence a machine: its next batch is refused, unless it has spoken meanwhile."""
        with contextlib.suppress(Moved, StreamFull, Again):
            await put_out(self._engine, last, batch)
            note(f"machine {last.machine!r} was silent, and is put out")


async def put_out(engine: Any, last: Stored, batch: Batch) -> None:
    """Store the marker that puts out a machine whose last word is `last`.  Moved, StreamFull, Again."""
    out = Batch(batches.OUT, batch.bus_id, batch.epoch, batch.number + 1, 0, batches.NO_DIGEST, 0)
    await engine.publish(last.machine, batches.encode(out), last.place, f"out-{last.place}")
