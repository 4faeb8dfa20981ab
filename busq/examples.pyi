# SPDX-License-Identifier: Apache-2.0
from busq.lab.examples import chat, copies, crew, leaders, mutex, plays, replicas, secret, threads, verdicts

__all__ = ["chat", "copies", "crew", "leaders", "mutex", "plays", "replicas", "secret", "threads", "verdicts"]
