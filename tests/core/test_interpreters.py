# SPDX-License-Identifier: Apache-2.0
"""Several interpreters in one process, and several imports in one interpreter."""

from __future__ import annotations

import pytest
from conftest import fresh_python

# run(code, kind): run it in a new interpreter of this process, which can import what this one can.
OTHERS = """
try:
    import _interpreters
except ImportError:
    import _xxsubinterpreters as _interpreters
import sys

def new(kind):
    try:
        return _interpreters.create(kind)  # since 3.13
    except TypeError:
        return _interpreters.create(isolated=kind == "isolated")

def run(code, kind):
    interpreter = new(kind)
    try:
        failed = _interpreters.run_string(interpreter, f"import sys\\nsys.path[:] = {sys.path!r}\\n{code}")
        assert not failed, failed
    finally:
        _interpreters.destroy(interpreter)

# A bus, peers and what they do, without cffi.
USE = '''
import os, threading
import busq
name = f"interpreter-{os.getpid()}"
with busq.Bus.create(name, peers=8, exist_ok=True) as bus:
    with bus.join("ann", watch=["bob"]) as ann, bus.join("bob") as bob:
        assert ann.recv().kind == "joined"
        bob.send(["ann", "bob"], [b"to ", b"both"])
        assert ann.recv().data == bob.recv().data == b"to both"
        bob.send("ann", b"v" * 100_000)
        with ann.recv().view() as view:
            assert view[:1] == b"v"
        bob.send_object("ann", {"price": 17})
        assert ann.recv().object() == {"price": 17}
        with bob.reserve(5) as draft:
            draft.buffer[:] = b"hello"
            draft.send("ann")
        node = bob.node()
        bob.send("ann", b"", handles=[node.handle])
        first, (handle,) = ann.recv(), ann.recv().handles
        ann.send(handle, b"to a node")
        assert bob.recv().node is node and first.data == b"hello"
        ann.enter("g")
        assert ann.recv().view.members == ("ann",)
        server = threading.Thread(target=lambda: bob.recv().reply(b"reply"))
        try:
            server.start()
        except RuntimeError:  # an isolated interpreter of 3.11 has no threads
            pass
        else:
            assert ann.ask("bob", b"request", timeout=10).data == b"reply"
            server.join()
        for error, call in (
            (busq.Empty, lambda: bob.recv(timeout=0)),
            (busq.UnknownPeer, lambda: bob.send("nobody", b"")),
            (TypeError, lambda: bob.send("ann")),
        ):
            try:
                call()
            except error:
                continue
            raise AssertionError(error)
busq.Bus.unlink(name)
assert "_cffi_backend" not in sys.modules and "busq._native._busq" not in sys.modules
print("used")
'''

# What the part that cffi has made says there.
TRY = '''
try:
    from busq._native import lib
except ImportError as error:
    print(type(error).__name__, error)
else:
    print("imported")
assert "_cffi_backend" not in sys.modules
'''
"""

kinds = pytest.mark.parametrize("kind", ["isolated", "legacy"])


def transcript(code: str, *arguments: str) -> list[str]:
    try:
        import _interpreters  # noqa: F401
    except ImportError:
        pytest.importorskip("_xxsubinterpreters")
    done = fresh_python(OTHERS + code, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@kinds
@pytest.mark.parametrize("first", ["import busq", "exec(USE)", ""], ids=["imported", "used", "alone"])
def test_another_interpreter_uses_it(kind: str, first: str) -> None:
    lines = transcript(f"{first}\nfor _ in range(2): run(USE, sys.argv[1])\nexec(USE)", kind)
    assert set(lines) == {"used"}


@kinds
def test_the_part_that_cffi_has_made_refuses_another_interpreter_and_says_why(kind: str) -> None:
    [line] = transcript("run(TRY, sys.argv[1])", kind)
    assert line.startswith("ImportError busq was imported in interpreter ")
    assert line.endswith(
        " of this process; expected the main one, since its compiled core can't be shared between interpreters: "
        "import it in the main interpreter, or start another process"
    )


@kinds
def test_interpreters_send_to_each_other_at_the_same_time(kind: str) -> None:
    code = """
import busq, threading
CODE = '''
import busq
with busq.Bus.open("several") as bus, bus.join("NAME") as peer:
    bus.wait_for(["a", "b"], timeout=60)
    for number in range(2000):
        peer.send(["a", "b"], b"%d" % number)
    got = []
    while len(got) < 4000:
        got += [message.data for message in peer.recv_many(100)]
    peer.send("judge", repr(got).encode())
'''
with busq.Bus.create("several", capacity=5000, temporary=True) as bus, bus.join("judge") as judge:
    threads = [threading.Thread(target=run, args=(CODE.replace("NAME", name), sys.argv[1])) for name in "ab"]
    for thread in threads:
        thread.start()
    one, other = judge.recv(60).data, judge.recv(60).data
    for thread in threads:
        thread.join()
    print(one == other)
"""
    assert transcript(code, kind) == ["True"]


# ---- importing again ----

AGAIN = """
import importlib, os, sys
import busq

def use(busq, peer):
    peer.send("me", b"small")
    assert peer.recv().data == b"small"
    peer.send("me", b"v" * 100_000)
    message = peer.recv()
    with message.view() as view:
        assert view[:1] == b"v"
    peer.send("me", b"again")
    offered = peer.recv(ack=True)
    offered.ack()
    for error, call in (
        (busq.Empty, lambda: peer.recv(timeout=0)),
        (busq.Empty, lambda: peer.recv(timeout=0.001)),
        (busq.Full, lambda: [peer.send("me", b"", timeout=0) for _ in range(5)]),
        (busq.UnknownPeer, lambda: peer.send("nobody", b"")),
    ):
        try:
            call()
        except error:
            continue
        raise AssertionError(f"no {error}")
    peer.recv_many(9)
    late = peer.send("me", b"late") or peer.recv(ack=True)
    peer.close()
    try:
        late.ack()
    except busq.ShutDown:
        print("works")
    busq.Bus.unlink(peer.bus.name)

def make(busq, name):
    return busq.Bus.create(f"{name}-{os.getpid()}", capacity=4, arena=1 << 20).join("me")
"""


def test_two_imports_live_side_by_side_in_one_interpreter() -> None:
    """As where a test runner forgets modules between tests while objects of the first import live on."""
    code = """
before = make(busq, "before")
first = busq
for name in [name for name in sys.modules if name.partition(".")[0] == "busq"]:
    del sys.modules[name]
import busq as second
assert second.Empty is not first.Empty
assert second._native._core.Port is not first._native._core.Port
after = make(second, "after")
use(second, after)
use(first, before)
use(first, make(first, "before"))
use(second, make(second, "after"))
"""
    done = fresh_python(AGAIN + code)
    assert (done.stdout.splitlines(), done.stderr) == (["works"] * 4, "")


@pytest.mark.parametrize("names", ["busq", "busq._port.arguments busq.bus busq", "busq._native busq.peer busq.bus"])
def test_reloading_disturbs_nobody(names: str) -> None:
    code = """
before = make(busq, "before")
for name in sys.argv[1].split():
    importlib.reload(sys.modules[name])
use(busq, before)
use(busq, make(busq, "after"))
"""
    done = fresh_python(AGAIN + code, names)
    assert (done.stdout.splitlines(), done.stderr) == (["works"] * 2, "")
