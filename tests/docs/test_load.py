# SPDX-License-Identifier: Apache-2.0
"""The services of the guides stand a load: more clients' requests at once than a queue holds messages."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from conftest import PATIENCE_S, ROOT, Child
from test_blocks import blocks

import busq

AT_ONCE = 1500  # where the capacity of the bus is 1024
HOWTO = ROOT / "docs" / "howto"


def code_of(page: Path, begins: str) -> str:
    """The block of a guide that defines something, up to what it runs at once."""
    block = next(block for block in blocks(page) if begins in block.text)
    return "\n".join(
        line for line in block.text.splitlines() if not line.startswith(("asyncio.run", "busq.Bus.unlink"))
    )


def service_of(page: str, begins: str, *, bus: Any) -> Any:
    names: dict[str, Any] = {"asyncio": asyncio, "busq": busq, "bus": bus}
    exec(compile(code_of(HOWTO / page, begins), page, "exec"), names)
    return names


async def ask_all(peer: Any, to: str, word: bytes) -> list[bytes]:
    replies = await asyncio.gather(*(peer.ask(to, word, timeout=PATIENCE_S) for _ in range(AT_ONCE)))
    return [reply.data for reply in replies]


def test_the_service_of_the_asyncio_guide_stands_a_load(bus: busq.Bus) -> None:
    service = service_of("asyncio.md", "async def service()", bus=bus)["service"]

    async def main() -> list[bytes]:
        serving = asyncio.create_task(service())
        await asyncio.sleep(0)
        async with busq.aio.join(bus, "client") as peer:
            replies = await ask_all(peer, "service", b"one")
        bus.shutdown()
        await serving
        return replies

    assert asyncio.run(main()) == [b"ONE"] * AT_ONCE


def test_the_service_of_the_guide_to_services_stands_a_load() -> None:
    service = service_of("asyncio-service.md", "async def serve()", bus=None)
    bus = service["bus"]
    child = Child(lambda: asyncio.run(service["serve"]()), ())

    async def main() -> list[bytes]:
        await busq.aio.wait_for(bus, "prices", timeout=PATIENCE_S)
        async with busq.aio.join(bus, "till") as peer:
            return await ask_all(peer, "prices", b"pear")

    try:
        assert asyncio.run(main()) == [b"5"] * AT_ONCE
    finally:
        bus.shutdown()
        with contextlib.suppress(FileNotFoundError):
            busq.Bus.unlink("shop")
        child.close()
