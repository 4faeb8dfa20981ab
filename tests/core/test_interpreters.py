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

# What importing a module gives there.
TRY = '''
try:
    import {0}
except ImportError as error:
    print(type(error).__name__, "in {0}:", error)
else:
    print("imported {0}")
assert "_cffi_backend" not in sys.modules and "busq" not in sys.modules
'''
"""

ways = pytest.mark.parametrize("way", ["", "1"], ids=["accelerated", "not accelerated"])
kinds = pytest.mark.parametrize("kind", ["isolated", "legacy"])


def transcript(code: str, *arguments: str, way: str = "") -> list[str]:
    try:
        import _interpreters  # noqa: F401
    except ImportError:
        pytest.importorskip("_xxsubinterpreters")
    done = fresh_python(OTHERS + code, *arguments, BUSQ_NO_ACCELERATOR=way)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@ways
@kinds
@pytest.mark.parametrize("first", ["import busq", ""], ids=["after the main one", "alone"])
def test_another_interpreter_is_refused_and_told_why(kind: str, way: str, first: str) -> None:
    code = f"{first}\nfor name in sys.argv[2:]: run(TRY.format(name), sys.argv[1])"
    names = ["busq", "busq.errors", "busq.spec", "busq.cli", "busq._native._busq", "busq._native._fast"]
    lines = transcript(code, kind, *names, way=way)
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(f"ImportError in {name}: busq was imported in interpreter ")
        assert line.endswith(
            " of this process; expected the main one, since its compiled core can't be shared between interpreters: "
            "import it in the main interpreter, or start another process"
        )


@ways
@kinds
def test_the_main_interpreter_notices_nothing_of_a_refused_one(kind: str, way: str) -> None:
    code = """
import busq
busq.Bus.create("several").close()
bus = busq.Bus.open("several")
try:
    alice = bus.join("alice")
    alice.send("alice", b"v" * 100_000)
    kept = alice.recv()
    run(TRY.format("busq"), sys.argv[1])
    assert kept.view()[:3] == b"vvv"
    kept.view().release()
    alice.send("alice", b"w" * 100_000)
    assert alice.recv().view()[:3] == b"www"
    for empty in (lambda: alice.recv(timeout=0), lambda: alice.recv_many(3, timeout=0), lambda: alice.recv(0.001)):
        try:
            empty()
        except busq.Empty as error:
            assert type(error) is busq.Empty
    print("works")
finally:
    busq.Bus.unlink("several")
"""
    refused, works = transcript(code, kind, way=way)
    assert refused.startswith("ImportError")
    assert works == "works"


def test_the_main_interpreter_may_come_after_a_refused_one() -> None:
    code = 'run(TRY.format("busq"), "legacy")\nimport busq\nprint(busq._port.core._fast is not None)'
    assert transcript(code)[1:] == ["True"]


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


@ways
def test_two_imports_live_side_by_side_in_one_interpreter(way: str) -> None:
    """As where a test runner forgets modules between tests while objects of the first import live on."""
    code = """
before = make(busq, "before")
first = busq
for name in [name for name in sys.modules if name.partition(".")[0] == "busq"]:
    del sys.modules[name]
import busq as second
assert second.Empty is not first.Empty
assert (second._core._fast is None) == bool(os.environ["BUSQ_NO_ACCELERATOR"])
assert second._core._fast is None or second._core._fast.Port is not first._core._fast.Port
after = make(second, "after")
use(second, after)
use(first, before)
use(first, make(first, "before"))
use(second, make(second, "after"))
"""
    done = fresh_python(AGAIN + code, BUSQ_NO_ACCELERATOR=way)
    assert (done.stdout.splitlines(), done.stderr) == (["works"] * 4, "")


@ways
@pytest.mark.parametrize(
    "names", ["busq", "busq._port.core", "busq._port.core busq.bus busq", "busq._native busq._port.core busq.bus"]
)
def test_reloading_disturbs_nobody(names: str, way: str) -> None:
    code = """
before = make(busq, "before")
for name in sys.argv[1].split():
    importlib.reload(sys.modules[name])
use(busq, before)
use(busq, make(busq, "after"))
"""
    done = fresh_python(AGAIN + code, names, BUSQ_NO_ACCELERATOR=way)
    assert (done.stdout.splitlines(), done.stderr) == (["works"] * 2, "")
