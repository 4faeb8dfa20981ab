# SPDX-License-Identifier: Apache-2.0
"""What help, inspect and editors show of all that is public: the same in every build, and enough to work with."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import fresh_python

import busq
from busq import aio, codec, queues
from busq.ordered import OrderedMessage, OrderedPeer

MODULES = (busq, aio, codec, queues)
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if name != "__version__"
}
CLASSES = {found for found in PUBLIC.values() if isinstance(found, type)} | {OrderedPeer, OrderedMessage}
CLASSES -= {codec.Codec}  # whose methods are others' business


def members(of: type) -> Iterator[tuple[str, Any]]:
    """What is public, and the class's own or of one of ours that it derives from."""
    not_ours = dir(OSError) if issubclass(of, BaseException) else ("count", "index", *getattr(of, "_fields", ()))
    return ((name, getattr(of, name)) for name in dir(of) if not name.startswith("_") and name not in not_ours)


def described(is_wanted: Callable[[Any], bool]) -> list[tuple[str, Any]]:
    ordered = sorted(CLASSES, key=lambda of: (of.__module__, of.__qualname__))
    return [(f"{of.__qualname__}.{name}", found) for of in ordered for name, found in members(of) if is_wanted(found)]


FUNCTIONS = [(name, found) for name, found in PUBLIC.items() if inspect.isfunction(found)]
METHODS = [*described(callable), *FUNCTIONS]
PROPERTIES = described(lambda found: not callable(found))


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_says_what_it_is_and_has_an_example(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert re.match(r"[A-Z].*[.]", text)
    assert ">>> " in text


@pytest.mark.parametrize(("name", "method"), METHODS, ids=[name for name, _ in METHODS])
def test_a_method_tells_parameters_errors_cost_and_an_example(name: str, method: Callable[..., Any]) -> None:
    text = inspect.getdoc(method) or ""
    title, _, rest = text.partition("\n")
    assert re.fullmatch(r"[A-Z].*[.]", title), title
    if other := re.search(r"as `busq\.Peer\.(\w+)`", title):  # the rest holds what differs
        text += inspect.getdoc(getattr(busq.Peer, other[1])) or ""
    assert not rest or rest.startswith("\n"), "one line, and an empty one"
    for parameter in inspect.signature(method).parameters:
        assert parameter == "self" or f"`{parameter}`" in text, f"nothing is said of {parameter}"
    for word in ("Errors: ", "Cost: ", ">>> "):
        assert word in text, f"no {word.strip()}"


@pytest.mark.parametrize(("name", "method"), METHODS, ids=[name for name, _ in METHODS])
def test_a_method_has_types(name: str, method: Callable[..., Any]) -> None:
    if inspect.ismethoddescriptor(method):  # in C, which can't name them: the public class does
        method = getattr(busq.Message, method.__name__)
    signature = inspect.signature(method)
    assert signature.return_annotation is not signature.empty
    for parameter in signature.parameters.values():
        assert parameter.name in ("self", "cls") or parameter.annotation is not parameter.empty


@pytest.mark.parametrize(("name", "found"), PROPERTIES, ids=[name for name, _ in PROPERTIES])
def test_a_property_says_what_it_is(name: str, found: Any) -> None:
    assert re.match(r"[A-Z].*[.]", inspect.getdoc(found) or "")


SHOW = """
import inspect, json, os, busq

def show(thing, without_types=False):
    text = [inspect.getdoc(thing)]
    if callable(thing):
        found = inspect.signature(thing)
        kept = [one.replace(annotation=one.empty) for one in found.parameters.values()]
        kept = [one for one in kept if one.name != "self"]  # of C methods it is by position only
        text.append(str(found.replace(parameters=kept, return_annotation=found.empty) if without_types else found))
    return text

shown = {}
for title, of in {"Bus": busq.Bus, "Peer": busq.Peer, "Message": busq.Message}.items():
    shown[title] = {name: show(getattr(of, name)) for name in dir(of) if not name.startswith("_")}
    shown[title] |= {"class": [inspect.getdoc(of), str(inspect.signature(of))]}
for order in ("bus1", "fifo"):
    name = f"help-{order}-{os.getpid()}"
    with busq.Bus.create(name, order=order, peers=2) as bus, bus.join("a") as peer:
        busq.Bus.unlink(name)
        peer.send("a", b"hello")
        message = peer.recv()
        for title, of in {"peer": peer, "message": message}.items():
            found = {name: getattr(type(of), name) for name in dir(of) if not name.startswith("_")}
            shown[f"{order} {title}"] = {name: show(one, without_types=True) for name, one in found.items()}
            bound = [name for name, one in found.items() if callable(one)]
            shown[f"{order} {title} bound"] = {name: show(getattr(of, name), without_types=True)[1] for name in bound}
            shown[f"{order} {title} is"] = isinstance(of, {"peer": busq.Peer, "message": busq.Message}[title])
print(json.dumps(shown))
"""


def shown() -> dict[str, Any]:
    done = fresh_python(SHOW)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_is_in_c_shows_what_the_class_shows() -> None:
    fast = shown()
    # But for the types, which C can't name.
    assert {name: text for name, (text, *_) in fast["bus1 peer"].items()} == {
        name: text for name, (text, *_) in fast["Peer"].items() if name != "class"
    }
    assert fast["Peer"]["send"][1] == (
        "(self, to: 'str | Handle | Iterable[str | Handle]', data: 'Payload', *, "
        "handles: 'Iterable[Handle]' = (), timeout: 'float | None' = None) -> 'None'"
    )
    assert fast["bus1 peer"]["send"][1] == "(to, data, *, handles=(), timeout=None)"
    assert fast["bus1 peer bound"]["recv_many"] == "(limit, timeout=None, *, ack=False)"


def test_what_one_gets_has_the_text_at_hand(bus: busq.Bus) -> None:
    """Not only by way of `inspect.getdoc`, which looks into base classes as well."""
    peer = bus.join("alice")
    for name in ("send", "send_many", "recv", "recv_many"):
        of_peer, of_class = getattr(peer, name).__doc__, getattr(busq.Peer, name).__doc__
        assert of_peer == inspect.cleandoc(of_class)


@pytest.mark.parametrize("order", ["bus1", "fifo", "skeen"])
@pytest.mark.parametrize("size", [0, 4096, 100_000])
def test_peers_and_messages_are_instances_of_the_public_classes(
    make_bus: Callable[..., busq.Bus], order: str, size: int
) -> None:
    peer = make_bus(order=order, peers=1).join("alice")
    assert isinstance(peer, busq.Peer)
    assert issubclass(type(peer), busq.Peer)
    for _ in range(3):
        peer.send("alice", bytes(size))
    received = [peer.recv(), *peer.recv_many(1), next(iter(peer))]
    if order == "bus1":
        peer.send("alice", bytes(size))
        received.append(peer.recv(ack=True))
    assert all(isinstance(message, busq.Message) for message in received)
    assert not isinstance(peer, busq.Message)
    assert not isinstance(received[0], busq.Peer)


def test_help_reads_as_a_page() -> None:
    page = pydoc.plain(pydoc.render_doc(busq.Peer))
    signature = (
        "send(self, to: 'str | Handle | Iterable[str | Handle]', data: 'Payload', *, "
        "handles: 'Iterable[Handle]' = (), timeout: 'float | None' = None) -> 'None'"
    )
    # Since 3.13 a long signature has a line for each parameter, since 3.14 types have no quotes.
    in_one_line = re.sub(r"[\s|']+", "", page)
    assert re.sub(r"[\s|']+", "", signature) in in_one_line
    assert "Send one message to one peer, or the same message to several at once." in page


def test_dir_help_and_completion_show_all_that_is_public() -> None:
    """In an interpreter in which nothing of it was used before."""
    code = (
        "import busq, json, pydoc, rlcompleter\n"
        "complete = rlcompleter.Completer({'busq': busq}).attr_matches('busq.')\n"
        "told = [one.split('(')[0].removeprefix('busq.') for one in complete]\n"
        "shown = pydoc.plaintext.document(busq)\n"
        "missing = {'dir': [n for n in busq.__all__ if n not in dir(busq)],\n"
        "           'completion': [n for n in busq.__all__ if not n.startswith('_') and n not in told],\n"
        "           'help': [n for n in busq.__all__ if not n.startswith('_') and n not in shown]}\n"
        "print(json.dumps(missing))\n"
    )
    done = fresh_python(code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"dir": [], "completion": [], "help": []}
