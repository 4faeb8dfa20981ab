# SPDX-License-Identifier: Apache-2.0
"""Sessions through Spark Connect: a server that runs already, named by an address `sc://HOST:PORT`.

Nothing is started here and no Java is needed.  What can't be is reported at once: PySpark itself tries for minutes to
reach a server that is not there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from busq.audit.spark.sessions.available import SparkFailed, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["connected", "host_and_port", "remote_of", "without_token"]

PORT = 15002
LISTENS_S = 10.0
READY_S = 30.0  # also the first call of a server that has to wake up
_PACKAGES = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_ADDRESS = re.compile(r"sc://(\[[^\]/;\s]+\]|[^/:;\s]+)(:\d{1,5})?(/(;[^;=\s]+=[^;\s]*)*;?)?")


def remote_of(master: str | None) -> str | None:
    """Return the address of a server, if a session is to go through Spark Connect: of `master`, or of SPARK_REMOTE.

    Raises ValueError for an address that cannot be.

    >>> remote_of("sc://head:15002"), remote_of("local[2]")
    ('sc://head:15002', None)
    """
    address, source = (master, "") if master else (os.environ.get("SPARK_REMOTE"), "SPARK_REMOTE: ")
    if not address or (not address.startswith("sc:") and (master or address.startswith("local"))):
        return None
    host, _ = _parts(address)
    if host:
        return address
    raise ValueError(
        f"{source}{without_token(address)!r} is no address of a Spark Connect server: "
        "use sc://HOST:PORT, or sc://HOST:PORT/;token=...;use_ssl=true"
    )


def _parts(url: str) -> tuple[str, int]:
    if not _ADDRESS.fullmatch(url):
        return "", 0
    try:
        parts = urlsplit(url)
        return parts.hostname or "", PORT if parts.port is None else parts.port
    except ValueError:  # a port above 65535
        return "", 0


def host_and_port(url: str) -> tuple[str, int]:
    """Return where a server listens; 15002 is the port unless the address names one.

    >>> host_and_port("sc://head/;use_ssl=true")
    ('head', 15002)
    """
    return _parts(url)


def without_token(url: str) -> str:
    """Return an address as it may be printed: without its parameters, one of which may be a secret.

    >>> without_token("sc://head:443/;token=secret")
    'sc://head:443'
    """
    return url.split("/;", 1)[0].split(";", 1)[0].rstrip("/")


@contextlib.contextmanager
def connected(url: str, config: Mapping[str, str]) -> Iterator[SparkSession]:
    """Give a session of a server while a block lasts; `config` are settings that a session may change.

    Raises Unavailable where a package lacks, SparkFailed where no server answers or it refuses the session.
    Cost: 2 s, most of it imports.
    """
    _require()
    _reach(url)
    spark = _open(url, config)
    try:
        yield spark
    finally:
        with contextlib.suppress(Exception):  # the server may have gone
            spark.stop()


def _require() -> None:
    missing = [package for module, package in _PACKAGES.items() if not _is_there(module)]
    if missing:
        raise Unavailable(f"Spark Connect needs {', '.join(missing)}: pip install 'busq[connect]'")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def _reach(url: str) -> None:
    """Find out whether a server listens, and speaks the protocol."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    place = without_token(url)
    if not any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        try:
            socket.create_connection(host_and_port(url), LISTENS_S).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SparkFailed(
                f"{place}: no Spark Connect server answers ({reason}): is it started, and is this its port?"
            ) from None
    channel = DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(READY_S)
    except grpc.FutureTimeoutError:
        raise SparkFailed(
            f"{place}: what listens there does not speak Spark Connect, or not like this: "
            "one of the two may want TLS (sc://HOST:PORT/;use_ssl=true)"
        ) from None
    finally:
        channel.close()


def _open(url: str, config: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url)
    for name, value in config.items():
        builder = builder.config(name, value)
    try:
        spark: SparkSession = builder.getOrCreate()
        _ = spark.version  # the first question: tokens are looked at here
    except PySparkException as error:
        reason = " ".join(str(error).split("\n\nJVM stacktrace")[0].split())
        raise SparkFailed(f"{without_token(url)} refused the session: {reason}") from None
    return spark
