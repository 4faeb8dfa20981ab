# SPDX-License-Identifier: Apache-2.0
"""Small applications of ordered messages, to run and to read: the public name of `busq.lab.examples`."""

from busq.lab.examples import chat, copies, crew, leaders, mutex, plays, replicas, secret, threads, verdicts

__all__ = ["chat", "copies", "crew", "leaders", "mutex", "plays", "replicas", "secret", "threads", "verdicts"]
