# SPDX-License-Identifier: Apache-2.0
"""Servers that speak TLS, and that know users by signed credentials: as they are met in earnest."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bridging import WAIT_S, Machine, data_of, need_server, run_busq

from busq.bench.nats_servers import NatsServer


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "1", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@contextlib.contextmanager
def serving(folder: Path, configuration: str) -> Iterator[NatsServer]:
    need_server()
    (folder / "server.conf").write_text(configuration)
    server = NatsServer(folder, ["-c", str(folder / "server.conf")])
    try:
        yield server
    finally:
        server.end()


def send_one(server: NatsServer, options: list[str]) -> None:
    """All that a domain needs, with these options: it is made, found to be as it should be, and carries a message."""
    made = run_busq("bridge", "init", "d", "--storage", "memory", "--server", server.url, *options)
    assert made.returncode == 0, made.stderr
    checked = run_busq("bridge", "check", "d", "--server", server.url, *options)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with contextlib.closing(Machine(server, "m1")) as machine:
        machine.options += options
        machine.begin()
        with machine.bus.join("alice") as alice:
            alice.enter("prices")
            alice.send("@prices", b"sealed", timeout=WAIT_S)
            assert [data for _, data, _ in data_of(alice, 1)] == [b"sealed"]


def test_a_domain_is_reached_by_tls_where_its_authority_is_known_and_no_other_way(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "ours")
    stranger, _ = make_certificate(tmp_path, "stranger")
    with serving(tmp_path, f'tls {{cert_file: "{certificate}", key_file: "{key}"}}') as server:
        send_one(server, ["--tls-ca", str(certificate)])
        for options in ([], ["--tls-ca", str(stranger)]):
            refused = run_busq("bridge", "ls", "d", "--server", server.url, *options)
            assert refused.returncode == 1
            assert "certificate verify failed" in refused.stderr
            assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("option", ["--creds", "--tls-ca"])
@pytest.mark.parametrize("content", [None, "nothing of this kind"])
def test_a_file_that_is_none_of_this_kind_is_named(tmp_path: Path, option: str, content: str | None) -> None:
    path = tmp_path / "file"
    if content:
        path.write_text(content)
    with serving(tmp_path, "authorization {token: secret}") as server:
        refused = run_busq("bridge", "ls", "d", "--server", server.url, option, str(path))
    assert refused.returncode in (1, 2)
    assert str(path) in refused.stderr
    assert "Traceback" not in refused.stderr


# ---- credentials: an operator vouches for an account, and the account for its users ----


class Signer:
    """A key of an operator, an account or a user."""

    def __init__(self, kind: str) -> None:
        import nkeys

        prefix = {"operator": nkeys.PREFIX_BYTE_OPERATOR, "account": nkeys.PREFIX_BYTE_ACCOUNT}
        self.kind = kind
        self.seed = nkeys.encode_seed(os.urandom(32), prefix.get(kind, nkeys.PREFIX_BYTE_USER))
        self._keys = nkeys.from_seed(self.seed)
        self.name = self._keys.public_key.decode()

    def vouch(self, other: Signer, **its: Any) -> str:
        """A signed statement of what another one is, and may."""
        claims = {"jti": other.name, "iat": int(time.time()), "iss": self.name, "sub": other.name, "name": other.kind}
        claims["nats"] = {"type": other.kind, "version": 2, **its}
        parts = [encoded({"typ": "JWT", "alg": "ed25519-nkey"}), encoded(claims)]
        signature = self._keys.sign(".".join(parts).encode())
        return ".".join([*parts, base64.urlsafe_b64encode(signature).decode().rstrip("=")])


def encoded(facts: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(facts).encode()).decode().rstrip("=")


NO_LIMITS = {"subs": -1, "data": -1, "payload": -1}
OF_ACCOUNT = {"imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
OF_STREAMS = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


def credentials(account: Signer, user: Signer) -> str:
    statement = account.vouch(user, **NO_LIMITS)
    return (
        f"-----BEGIN NATS USER JWT-----\n{statement}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )


def test_a_domain_is_reached_with_the_credentials_of_its_account_and_no_others(tmp_path: Path) -> None:
    pytest.importorskip("nkeys", reason="needs nkeys: pip install 'busq[bridge]'")
    operator, account, stranger, system = Signer("operator"), *(Signer("account") for _ in range(3))
    ours, theirs = tmp_path / "ours.creds", tmp_path / "theirs.creds"
    ours.write_text(credentials(account, Signer("user")))
    theirs.write_text(credentials(stranger, Signer("user")))
    known = operator.vouch(account, limits={**NO_LIMITS, **OF_ACCOUNT, **OF_STREAMS})
    of_system = operator.vouch(system, limits={**NO_LIMITS, **OF_ACCOUNT})
    configuration = (
        f"operator: {operator.vouch(operator)}\nsystem_account: {system.name}\nresolver: MEMORY\n"
        f"resolver_preload: {{{account.name}: {known}, {system.name}: {of_system}}}"
    )
    with serving(tmp_path, configuration) as server:
        send_one(server, ["--creds", str(ours)])
        for options in ([], ["--creds", str(theirs)]):
            refused = run_busq("bridge", "ls", "d", "--server", server.url, *options)
            assert refused.returncode == 1
            assert "authorization violation" in refused.stderr.lower()
            assert "Traceback" not in refused.stderr
