# SPDX-License-Identifier: Apache-2.0
"""The server of a stage's page: on loopback alone, for one user, without a state of its own.

What has happened on the stage is a list of commands in the page's address, after the #; the server plays them.  The
address has a random part that other pages and users don't know, and requests for another host's name are refused.
A search goes on for as long as the page keeps its request open, and is given up with that.
"""

from __future__ import annotations

import contextlib
import html
import json
import secrets
import select
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from busq.lab.stage_page.state import Conductor

__all__ = ["PageServer"]

_HOST = "127.0.0.1"
_BODY_BYTES_MAX = 1 << 20
_FILES = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
_POLICY = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'"


class PageServer:
    """Serves the page of a conductor at `url` until it is closed; a context manager.

    `port`: 0 for a free one.  Errors: OSError for a port that is taken.
    """

    def __init__(self, conductor: Conductor, port: int = 0) -> None:
        self._key = secrets.token_urlsafe(12)
        self._conductor = conductor
        self._drawing = threading.Lock()  # Matplotlib draws one picture at a time
        self._server = ThreadingHTTPServer((_HOST, port), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://{_HOST}:{self.port}/{self._key}/"
        self._thread = threading.Thread(target=self._server.serve_forever, name="busq stage", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; a second time does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            server_version, sys_version = "busq", ""

            def do_GET(self) -> None:
                name = server.asked(self)
                if name not in _FILES:
                    self.send_error(404)
                    return
                server.answer(self, 200, _FILES[name][1], server.text(name))

            def do_POST(self) -> None:
                name = server.asked(self)
                act = server.acts.get(name or "")
                size = self.headers.get("Content-Length", "")
                if act is None or not size.isdecimal() or int(size) > _BODY_BYTES_MAX:
                    self.send_error(404 if act is None else 413)
                    return
                try:
                    given = json.loads(self.rfile.read(int(size)))
                    found = act(given, self.is_awaited)
                except (ValueError, LookupError, TypeError) as error:
                    server.answer(self, 400, "application/json", json.dumps({"error": str(error)}))
                    return
                server.answer(self, 200, "application/json", json.dumps(found))

            def is_awaited(self) -> bool:
                """Whether the page has not hung up."""
                poll = select.poll()
                poll.register(self.connection, select.POLLRDHUP)
                return not poll.poll(0)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        return Handler

    def asked(self, request: BaseHTTPRequestHandler) -> str | None:
        """Which file or act was asked for; None for what has not the key, or names another host."""
        hosts = {f"{_HOST}:{self.port}", f"localhost:{self.port}"}
        head = f"/{self._key}/"
        if request.headers.get("Host") not in hosts or not request.path.startswith(head):
            return None
        return request.path[len(head) :]

    def text(self, name: str) -> str:
        """Return the text of a file."""
        text = files("busq.lab.stage_page").joinpath(_FILES[name][0]).read_text(encoding="utf-8")
        return text if name else text.replace("$order", html.escape(self._conductor.head()))

    @staticmethod
    def answer(request: BaseHTTPRequestHandler, code: int, kind: str, text: str) -> None:
        """Send an answer, unless the page has hung up."""
        body = text.encode()
        request.send_response(code)
        request.send_header("Content-Type", f"{kind}; charset=utf-8")
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Content-Security-Policy", _POLICY)
        request.send_header("Referrer-Policy", "no-referrer")
        request.send_header("Cache-Control", "no-store")
        with contextlib.suppress(ConnectionError):
            request.end_headers()
            request.wfile.write(body)

    @property
    def acts(self) -> dict[str, Any]:
        """What the page may ask for, by its name."""
        return {"state": self._state, "find": self._find, "scenario": self._scenario}

    def _state(self, given: Any, _: Callable[[], bool]) -> Any:
        with self._drawing:
            return self._conductor.state(_commands(given))

    def _find(self, given: Any, is_awaited: Callable[[], bool]) -> Any:
        return self._conductor.find(_commands(given), str(given.get("property", "")), is_awaited)

    def _scenario(self, given: Any, _: Callable[[], bool]) -> Any:
        return {"text": self._conductor.scenario(_commands(given))}


def _commands(given: Any) -> list[str]:
    commands = given.get("commands") if isinstance(given, dict) else None
    if not isinstance(commands, list) or not all(isinstance(one, str) for one in commands):
        raise ValueError("expected an object with the list of commands")
    return commands
