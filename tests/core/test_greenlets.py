# SPDX-License-Identifier: Apache-2.0
"""gevent and eventlet: what would stop all greenlets is refused, and their real threads wait as any thread does."""

from __future__ import annotations

import pytest
from conftest import fresh_python

import busq

BEGIN = {
    "gevent": """
from gevent import monkey
monkey.patch_all()
import gevent
pause = gevent.sleep
def in_thread(call, *arguments, **named):
    return gevent.get_hub().threadpool.apply(call, arguments, named)
def spawn(call):
    return gevent.spawn(call).get
""",
    "eventlet": """
import warnings
warnings.simplefilter("ignore")
import eventlet
eventlet.monkey_patch()
from eventlet import tpool
pause, in_thread = eventlet.sleep, tpool.execute
def spawn(call):
    return eventlet.spawn(call).wait
""",
}

PROGRAM = """
import sys
import busq
bus = busq.Bus.open(sys.argv[1])
ann, bob = bus.join("ann"), bus.join("bob")
pause(0)
ann.send("bob", b"there is room")
print(bob.recv().data)  # and a message
for call in (bob.recv, bob.recv_many, lambda: ann.ask("bob", b"?"), lambda: [ann.send("bob", b"") for _ in range(99)]):
    try:
        call(9) if call == bob.recv_many else call()
        print("it has waited")
    except RuntimeError as error:
        print(str(error).split(" ")[0], getattr(error, "sent", None))
try:
    while True:
        bob.recv(timeout=0)
except busq.Empty:
    pass
ticks = []
def tick():
    for number in range(3):
        ticks.append(number)
        pause(0.01)
    ann.send("bob", b"to a thread")
ticking = spawn(tick)
print(in_thread(bob.recv).data, ticks)
ticking()
def serve():
    message = in_thread(bob.recv)
    message.reply(message.data.upper())
serving = spawn(serve)
print(in_thread(ann.ask, "bob", b"hello", timeout=60).data)
serving()
ann.close()
bob.close()
"""


@pytest.mark.parametrize("library", list(BEGIN))
def test_greenlets_wait_in_real_threads_and_are_refused_otherwise(bus: busq.Bus, library: str) -> None:
    pytest.importorskip(library)
    done = fresh_python(BEGIN[library] + PROGRAM, bus.name)
    assert done.stdout.splitlines() == [
        "b'there is room'",
        f"{library} None",
        f"{library} None",
        f"{library} 0",
        f"{library} 0",
        "b'to a thread' [0, 1, 2]",
        "b'HELLO'",
    ], done.stderr
