# SPDX-License-Identifier: Apache-2.0
"""Codecs: what writes and reads the objects of `Peer.send_object` instead of pickle.

A codec is anything with two methods, `encode(obj)` and `decode(payload)` (`Codec`); it is given to `Bus.join`, by the
sender and by the receivers alike.  A peer with a codec unpickles nothing, so that what comes from others runs no code.
"""

from __future__ import annotations

from typing import Any

from busq.peer import Codec

__all__ = ["Codec", "msgspec", "pickle"]


def msgspec(type: Any = Any, *, format: str = "msgpack") -> Codec:
    """Return a codec that writes objects with msgspec, and checks the type of what it reads.

    Parameters: `type`, what `Message.object` is to return, as msgspec takes it: a Struct, a dataclass, a union,
    `dict[str, int]` ..., or Any; `format`, "msgpack" or "json".

    Errors: ImportError if msgspec is not installed; ValueError for another format; TypeError for a type that msgspec
    can't read.  Reading what has another type is msgspec.ValidationError.

    Cost: that of making an encoder and a decoder, once.

    >>> import busq, busq.codec
    >>> with busq.Bus.create("doc-msgspec") as bus:
    ...     with bus.join("alice", codec=busq.codec.msgspec(dict[str, int])) as alice:
    ...         alice.send_object("alice", {"apples": 3})
    ...         alice.recv().object()
    {'apples': 3}
    >>> busq.Bus.unlink("doc-msgspec")
    """
    if format not in ("msgpack", "json"):
        raise ValueError(f"format {format!r}: expected 'msgpack' or 'json'")
    try:
        import msgspec as library
    except ImportError as error:
        raise ImportError("busq.codec.msgspec needs msgspec: pip install msgspec") from error
    module = library.msgpack if format == "msgpack" else library.json
    return _Pair(f"msgspec ({format})", module.Encoder().encode, module.Decoder(type).decode)


def pickle() -> Codec:
    """Return a codec that pickles, for replicas whose arguments or states are more than plain data.

    Reading a pickle runs what its sender wrote into it: give it to `busq.Replica.join` where you trust all of the
    bus.  `Peer.send_object` pickles without a codec, and keeps large buffers beside the pickle.

    Errors: none; encoding raises what pickling raises.

    Cost: none, until it is used.

    >>> import busq, busq.codec, datetime
    >>> with busq.Bus.create("doc-pickle") as bus:
    ...     with busq.replica.Dict.join(bus, "days", codec=busq.codec.pickle()) as days:
    ...         days["first"] = datetime.date(2000, 1, 1)
    ...         days["first"].year
    2000
    >>> busq.Bus.unlink("doc-pickle")
    """
    import pickle as library

    def encode(obj: Any) -> bytes:
        return library.dumps(obj, 5)

    return _Pair("pickle", encode, library.loads)


class _Pair:
    """A codec made of two functions."""

    __slots__ = ("decode", "encode", "name")

    def __init__(self, name: str, encode: Any, decode: Any) -> None:
        self.name = name
        self.encode = encode
        self.decode = decode
