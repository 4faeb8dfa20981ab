# SPDX-License-Identifier: Apache-2.0
"""A network that fails: what connects to a server through it can be cut off, or get no answers."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class Proxy:
    """Passes connections on 127.0.0.1 to a port, in both directions."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: set[socket.socket] = set()
        self._is_whole, self._may_connect = threading.Event(), True
        self._is_whole.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, for_s: float) -> None:
        """Break all connections, and take none for a while."""
        self._may_connect = False
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        time.sleep(for_s)
        self._may_connect = True

    def hole(self, for_s: float) -> None:
        """Pass nothing on for a while, and break nothing."""
        self._is_whole.clear()
        time.sleep(for_s)
        self._is_whole.set()

    def close(self) -> None:
        self._is_whole.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut(0)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                near = self._listening.accept()[0]
                try:
                    if not self._may_connect:
                        raise OSError
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    near.close()
                    continue
                self._open |= {near, far}
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._is_whole.wait()
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)
        source.close()
