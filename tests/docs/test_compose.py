# SPDX-License-Identifier: Apache-2.0
"""The compose file of the guide to several machines: it parses, and its bridge has options that are there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from conftest import ROOT
from test_blocks import blocks

from busq.cli import commands


def compose_file() -> str:
    (found,) = (one for one in blocks(ROOT / "docs" / "howto" / "several-machines.md") if one.language == "yaml")
    return found.text


def test_each_host_has_a_server_that_keeps_its_files_and_a_bridge_to_it() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    told = yaml.safe_load(compose_file())
    server, bridge = told["services"]["server"], told["services"]["bridge"]
    (kept,) = (one.partition(":")[0] for one in server["volumes"])
    assert kept in told["volumes"]
    words = shlex.split(bridge["command"])
    command: click.Command = commands
    for name in words[1:3]:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found
        command = found
    command.make_parser(click.Context(command)).parse_args(words[3:])
    assert bridge["network_mode"] == server["network_mode"] == "host"


def test_docker_reads_it(tmp_path: Path) -> None:
    if not shutil.which("docker") or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("needs docker compose")
    (tmp_path / "compose.yaml").write_text(compose_file())
    command = ["docker", "compose", "--project-directory", str(tmp_path), "config", "--quiet"]
    read = subprocess.run(command, cwd=tmp_path, env={**os.environ, "MACHINE": "till1"}, capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
