# SPDX-License-Identifier: Apache-2.0
"""The mutants of what orders do when processes die (on_crash=go-on): each rule removed, or weakened."""

from __future__ import annotations

from mutants.table import Bound, slips

ONE = Bound(3, 1, to_all=1, crashes=1)  # of the table in docs/explanation/when-processes-die.md
WITH_OWN = Bound(3, 1, to_all=1, with_self=1, crashes=1)
BOTH_OTHERS = Bound(3, 1, to_all=1, crashes=2)  # the sender as well, or its own copies come
ALONE = Bound(3, 1, crashes=1)
TWO = Bound(3, 2, crashes=1)
TWO_TO_ALL = Bound(3, 2, to_all=1, crashes=1)
TWO_TO_SOME = Bound(3, 2, fan_out=2, crashes=1)
TWO_DEATHS = Bound(4, 1, fan_out=4, with_self=1, crashes=2, walks=60_000)
SEND_ON = """  busq_do_send(effects, BUSQ_TO_DESTINATIONS,
               (busq_order_packet){"""
SEND_FINAL = """    busq_do_send(effects, BUSQ_TO_DESTINATIONS,
                 (busq_order_packet){.message = entry->message, .stamp = entry->key, .kind = FINAL});
"""
FLUSH_FIRST = (
    (
        "    self->to_tell = queue_of(self)->count + 1;\n",
        "    self->to_tell = queue_of(self)->count + 1,\n    busq_do_send(effects, BUSQ_TO_ALL, "
        "(busq_order_packet){.note = self->group.suspected, .kind = FLUSH});\n",
    ),
)
DELIVER_OWN = "  if (event->is_for_me && goes_on)\n    busq_do_deliver(effects, message);\n"
DELIVER = "  if (is_for_me)\n    busq_do_deliver(effects, message);\n"
HAND_ON = (
    "  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet)"
    "{.message = message, .stamp = ++self->passed, .kind = DATA});\n"
)
DELIVER_OR_DROP = (
    "  if (event->is_for_me)\n    busq_do_deliver(effects, message);\n  else\n    busq_do_drop(effects, message);\n"
)
PASS_ON = "  send_on(message, effects);\n" + DELIVER_OR_DROP
SEND_OWN = "    send_on(message, effects);\n  if (event->is_for_me)\n    busq_do_deliver(effects, message);\n"
OWN_FIRST = "    busq_do_deliver(effects, message);\n  send_on(message, effects);\n"
IS_DEAD = "const bool is_dead = busq_group_suspects(&self->group, process);"
WAKE = "if (event->kind == BUSQ_ON_SUSPECT)\n    busq_causal_wake("
PASSED = "return busq_causal_passed(held_of(self), process, is_dead,"

# Of the causal orders to any destinations, which wait alike.
WAITING = [
    mutant
    for order, broken in (("causal-matrix", "stuck"), ("ses", "causal"), ("ks", "causal"))
    for mutant in slips(
        f"{order}:on_crash=go-on",
        ("what the dead have not sent is waited for", "stuck", ONE, (IS_DEAD, "const bool is_dead = false;")),
        ("nobody looks again when a process dies", "stuck", ONE, (WAKE, WAKE.replace("if (", "if (0 && "))),
        (
            "what is held of the dead is not waited for",
            broken,
            TWO_TO_ALL,
            (PASSED, "return is_dead ? UINT32_MAX - 1 : ("),
        ),
    )
]

WHITE_BOX = [
    *slips(
        "wbam:on_crash=go-on",
        (
            "a new leader forgets what was ACCEPTED",
            "kept",
            WITH_OWN,
            (
                "entry->reported_local && entry->reported_after == latest;",
                "entry->reported_local && entry->reported_after > latest;",
            ),
        ),
        (
            "a new leader asks no quorum",
            "uniform",
            WITH_OWN,
            (
                "(busq_order_packet){.kind = NEWLEADER});\n",
                "(busq_order_packet){.kind = NEWLEADER});\n  take_over(self, self->latest);\n",
            ),
        ),
        (
            "a new leader does not retry what is ACCEPTED",
            "stuck",
            WITH_OWN,
            ("    if (wbam_entry_at(self, place)->phase == ACCEPTED)\n", "    if (0)\n"),
        ),
        (
            "NEWSTATE is not acknowledged",
            "stuck",
            ONE,
            ("  self->status = FOLLOWER;\n", "  self->status = FOLLOWER;\n  return;\n"),
        ),
        (
            "a sender does not ask the successor",
            "lost",
            ONE,
            ("      entry->asks |= successor;\n", "      entry->asks |= 0;\n"),
        ),
        source="wbam_recovery.c",
    ),
    *slips(
        "wbam:on_crash=go-on",
        ("DELIVER is taken whatever its GlobalTS", "duplicated", ONE, ("packet->stamp <= self->passed)", "0)")),
        (
            "a process that delivers does not hand the payload on",
            "kept",
            ONE,
            ("if (hands_on && !self->is_handed_on)", "if (0 && hands_on)"),
        ),
        (
            "a new leader hands on what it has no more",
            "kept",
            WITH_OWN,
            ("entry->remarks & IS_DELIVERED ? AGAIN : ACCEPT", "ACCEPT"),
        ),
        (
            "a new leader does not hand out what it has delivered",
            "lost",
            ONE,
            (
                "  if (entry->global > self->passed) {",
                "  if (self->leader && entry->remarks & IS_DELIVERED)\n    self->to = 0;\n"
                "  if (entry->global > self->passed) {",
            ),
        ),
        (
            "a sender waits for the dead to deliver",
            "stuck",
            ONE,
            (
                "wbam_concerned(&self->group, entry->destinations) & ~self->group.suspected",
                "wbam_concerned(&self->group, entry->destinations)",
            ),
        ),
    ),
]

GO_ON = [
    *WHITE_BOX,
    *slips(
        "causal-vector:on_crash=go-on",
        (
            "what comes is not sent on",
            "agreement",
            ONE,
            (
                "  else if (goes_on)\n    busq_do_send(effects, BUSQ_TO_REST",
                "  else if (!goes_on)\n    busq_do_send(effects, BUSQ_TO_REST",
            ),
        ),
        (
            "a sender delivers its own first",
            "uniform",
            WITH_OWN,
            ("if (event->is_for_me && !goes_on)", "if (event->is_for_me)"),
            (DELIVER_OWN, "  (void)goes_on;\n"),
        ),
        (
            "what comes a second time is held back once more",
            "stuck",
            ONE,
            ("(goes_on && busq_holdback_find(held, key, packet->message) < held->count)", "false"),
        ),
        (
            "who sends it on counts as its sender",
            "stuck",
            ONE,
            ("goes_on ? busq_message_origin(packet->message) : packet->from", "packet->from"),
        ),
    ),
    *slips(
        "prc:on_crash=go-on",
        (
            "who gets it first delivers it first",
            "uniform",
            BOTH_OTHERS,
            (PASS_ON, DELIVER_OR_DROP + "  send_on(message, effects);\n"),
        ),
        (
            "a sender delivers its own first",
            "uniform",
            WITH_OWN,
            ("  if (self->group.n_processes > 1)\n" + SEND_OWN, "  if (event->is_for_me)\n" + OWN_FIRST),
        ),
        (
            "a copy of the dead is expected for ever",
            "stuck",
            ONE,
            (
                "memset(expected_from(self, event->packet.from), 0, self->",
                "memset(expected_from(self, event->packet.from), 0, 0 * self->",
            ),
        ),
        (
            "of what comes after a death a copy of the dead is expected",
            "stuck",
            ONE,
            (
                "self->group.self && !busq_group_suspects(&self->group, process))\n      expected",
                "self->group.self)\n      expected",
            ),
        ),
    ),
    *WAITING,
    *slips(
        "ses:on_crash=go-on",
        (
            "all that the sender of a multicast knows has to come, as if that came, too",
            "stuck",
            TWO_TO_SOME,
            ("  if (!(self->group.options & BUSQ_OPTION_GO_ON))\n    raise_to(", "  if (clock)\n    raise_to("),
        ),
    ),
    *slips(
        "ks:on_crash=go-on",
        (
            "what a multicast might have brought is forgotten, as if it came",
            "lost",
            TWO_TO_ALL,
            ("return !(is_to_several && self->group.options & BUSQ_OPTION_GO_ON);", "return is_to_several || self;"),
        ),
    ),
    *slips(
        "sequencer:on_crash=go-on",
        (
            "only the coordinator sends numbers to all",
            "agreement",
            ONE,
            (HAND_ON, "  ++self->passed;\n  if (gives_numbers(self))\n  " + HAND_ON.replace("++", "")),
        ),
        (
            "it delivers before it sends to all",
            "uniform",
            WITH_OWN,
            (HAND_ON + DELIVER, DELIVER + HAND_ON),
        ),
        (
            "the successor does not wait for what others have got",
            "refused",
            ONE,
            ("&& group->suspected & ~self->flushed[process])", "&& !group->suspected)"),
        ),
        (
            "a flush of the time before a second death counts",
            "refused",
            TWO_DEATHS,
            ("&& group->suspected & ~self->flushed[process])", "&& !self->flushed[process])"),
        ),
        (
            "nobody says that it has sent on all that came from the dead",
            "stuck",
            ONE,
            ("if (next && next != group->self)", "if (next && next == group->self)"),
        ),
        (
            "the successor tells nobody that it goes on",
            "stuck",
            ONE,
            ("  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.kind = GO});\n", ""),
        ),
        (
            "what the dead was asked for is not asked for again",
            "stuck",
            ONE,
            ("    self->asked = 0;\n", ""),
        ),
        (
            "the new coordinator is asked once more for what is done",
            "duplicated",
            ONE,
            (
                "  busq_outbox_pop(outbox_of(self));\n",
                "  if (gives_numbers(self) || !self->group.suspected)\n    busq_outbox_pop(outbox_of(self));\n",
            ),
        ),
        (
            "requests go to process 0, whoever lives",
            "stuck",
            ONE,
            ("    self->coordinator = packet->from;\n", ""),
        ),
        (
            "the highest process takes over, and flushes go to the lowest",
            "stuck",
            ONE,
            (
                "next_coordinator(group) != group->self ||",
                "group->self + 1 != group->n_processes || !group->suspected ||",
            ),
        ),
    ),
    *slips(
        "fifo-ack:on_crash=go-on",
        (
            "only what is on its way to the dead is done, and not what waits behind it",
            "stuck",
            TWO,
            (
                "           acknowledge(self, process, effects))\n      ;",
                "           acknowledge(self, process, effects))\n      return;",
            ),
        ),
        (
            "nothing is acknowledged for the dead",
            "stuck",
            ALONE,
            (
                "< self->group.n_processes && self->group.suspected",
                "< self->group.n_processes && !self->group.suspected",
            ),
        ),
    ),
    *slips(
        "sync:on_crash=go-on",
        (
            "who waits for the dead stays passive",
            "stuck",
            ALONE,
            ("  if (self->passive_for == dead + 1)\n    self->passive_for = NOBODY;\n", ""),
        ),
        (
            "what the dead has asked for stays in line",
            "stuck",
            ALONE,
            (": waiting->to == dead && waiting->note != DATA)", ": !dead && waiting->note == ACK)"),
        ),
        (
            "what the dead has sent is forgotten, too",
            "kept",
            ALONE,
            (": waiting->to == dead && waiting->note != DATA)", ": waiting->to == dead)"),
        ),
        (
            "a message to the dead stays in line",
            "stuck",
            ALONE,
            ("waiting->note == OWN ? is_head_to_the_dead(self) :", "waiting->note == OWN ? false :"),
        ),
        (
            "a message to the dead is not done",
            "stuck",
            ALONE,
            ("  end_heads_to_the_dead(self, effects);\n  serve", "  serve"),
        ),
    ),
    *slips(
        "lamport:on_crash=go-on",
        (
            "what comes is acknowledged, and not sent on",
            "agreement",
            ONE,
            (
                ".stamp = packet->stamp, .kind = DATA});\n    return",
                ".stamp = self->clock, .kind = ACK});\n    return",
            ),
        ),
        (
            "it waits for something of the dead",
            "stuck",
            ONE,
            ("!busq_group_suspects(group, process) &&", "true &&"),
        ),
        (
            "it does not wait for what others have got of the dead",
            "total",
            WITH_OWN,
            ("(group->suspected && group->suspected & ~*flushed_of(self, process))", "false"),
        ),
        (
            "a process says that it has sent on all that came from the dead to one other alone",
            "stuck",
            ONE,
            (
                "busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.note",
                "busq_do_send(effects, !self->group.self, (busq_order_packet){.note",
            ),
        ),
        (
            "what has come before is queued once more",
            "duplicated",
            ONE,
            ("  busq_do_ignore(effects);\n  return true;", "  return false;"),
        ),
    ),
    *slips(
        "token:on_crash=go-on",
        (
            "what comes is not sent on",
            "agreement",
            ONE,
            ("  if (goes_on(&self->group))\n    busq_do_send(", "  if (!goes_on(&self->group))\n    busq_do_send("),
        ),
        (
            "what has come before is held back once more",
            "stuck",
            ONE,
            ("  if (goes_on(&self->group) && (packet->stamp <", "  if (!goes_on(&self->group) && (packet->stamp <"),
        ),
        (
            "nobody makes a token",
            "stuck",
            ONE,
            ("  make_token(self);\n", "  if (0)\n    make_token(self);\n"),
        ),
        (
            "a token is made before the others have flushed",
            "agreement",
            WITH_OWN,
            ("&& group->suspected & ~self->flushed[process])", "&& !group->suspected)"),
        ),
        (
            "a flush of the time before a second death counts",
            "stuck",
            TWO_DEATHS,
            ("&& group->suspected & ~self->flushed[process])", "&& !self->flushed[process])"),
        ),
        (
            "nobody says that it has sent on all that came from the dead",
            "stuck",
            ONE,
            ("  if (lowest(self) != self->group.self)\n", "  if (0)\n"),
        ),
        (
            "who has the token keeps it when a process dies",
            "agreement",
            WITH_OWN,
            ("  give_up(self);\n  if (lowest", "  if (lowest"),
        ),
        (
            "a token of the time before a death is taken",
            "agreement",
            WITH_OWN,
            ("  if (n_dead_then < n_dead(self))\n    return;\n", "  (void)n_dead_then;\n"),
        ),
        (
            "the token goes on to the dead",
            "stuck",
            ONE,
            ("  while (busq_group_suspects(&self->group, next));", "  while (next == self->group.self);"),
        ),
        (
            "a wish of the dead goes round for ever",
            "endless",
            Bound(3, 1, to_all=1, crashes=1, counts_moves=1),
            ("  if (busq_group_suspects(&self->group, packet->note))\n    return;\n", ""),
        ),
    ),
    *slips(
        "skeen:on_crash=go-on",
        (
            "what comes is not sent on",
            "stuck",
            ONE,
            (SEND_ON, "  if (0)\n" + SEND_ON),
        ),
        (
            "it does not wait for DATA that may come",
            "duplicated",
            ONE,
            ("!(entry->note & ~self->group.suspected & ~is_open)", "true"),
        ),
        (
            "it waits for DATA of the dead",
            "stuck",
            ONE,
            ("~self->group.suspected & ~is_open)", "~is_open)"),
        ),
        (
            "it does not wait for what others have heard of the dead",
            "total",
            WITH_OWN,
            ("(!entry->from || have_all_flushed(self))", "true"),
        ),
        (
            "what was heard of the dead is not told",
            "total",
            WITH_OWN,
            ("    if (entry->note)\n      busq_do_send(", "    if (!entry)\n      busq_do_send("),
        ),
        (
            "it says that it has told before it tells",
            "total",
            WITH_OWN,
            *FLUSH_FIRST,
        ),
        (
            "nobody says that it has told what it has heard",
            "stuck",
            ONE,
            ("  if (self->to_tell == 1 &&", "  if (0 &&"),
            ("  if (!self->to_tell)\n", "  self->to_tell = 0;\n"),
        ),
        (
            "it does not wait for all to tell",
            "total",
            WITH_OWN,
            ("&& group->suspected & ~self->flushed[process])", "&& process == group->n_processes)"),
        ),
        (
            "a flush of the time before a second death counts",
            "total",
            TWO_DEATHS,
            ("&& group->suspected & ~self->flushed[process])", "&& !self->flushed[process])"),
        ),
        (
            "what is settled is not sent to the others",
            "total",
            WITH_OWN,
            (SEND_FINAL, "    if (0)\n  " + SEND_FINAL),
        ),
        (
            "a larger proposal changes nothing",
            "total",
            ONE,
            ("  if (packet->stamp > entry->key)\n", "  if (packet->stamp == entry->key + 99)\n"),
        ),
        (
            "the clock is not raised by what is settled",
            "invariant",
            ONE,
            ("    self->clock = larger(self->clock, entry->key);\n", ""),
        ),
    ),
    *slips(
        "abcast:on_crash=go-on",
        (
            "it says that it has told before it tells",
            "total",
            WITH_OWN,
            *FLUSH_FIRST,
        ),
        (
            "it counts who has died, and not what others have heard of it",
            "total",
            WITH_OWN,
            ("(!entry->from || have_all_flushed(self))", "true"),
        ),
    ),
    *slips(
        "mfss:on_crash=go-on",
        (
            "only what is on its way to the dead is done, and not what waits behind it",
            "stuck",
            TWO,
            ("  while (self->outbox.count && busq_group", "  if (self->is_unacked && busq_group"),
        ),
        (
            "nothing is done for the dead",
            "stuck",
            ALONE,
            ("  end_heads_to_the_dead(self, effects);\n", ""),
        ),
        (
            "what is done for the dead counts as unacknowledged",
            "invariant",
            ALONE,
            ("    self->is_unacked = 0;\n    busq_do_done(effects, head", "    busq_do_done(effects, head"),
        ),
    ),
    *slips(
        "cykas:on_crash=go-on",
        (
            "a secret of the dead ends before all earlier messages have arrived",
            "causal",
            TWO,
            ("!has_arrived_everywhere(self, process))", "0)"),
        ),
        (
            "a secret of the dead is kept for ever",
            "stuck",
            TWO,
            ("    self->mode -= (int32_t)other_at(self, process)->to;\n", ""),
        ),
        (
            "nobody says that all of the dead has arrived",
            "stuck",
            TWO,
            (
                "  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.note",
                "  if (dead == self->group.self)\n    busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.note",
            ),
        ),
        (
            "what the dead has not acknowledged keeps secrets",
            "stuck",
            TWO,
            (
                "  if (entry)\n    entry->note |= IS_ACKED;\n  busq_do_send",
                "  if (entry)\n    entry->note |= 0;\n  busq_do_send",
            ),
        ),
        (
            "a message to the dead waits to be acknowledged",
            "stuck",
            ALONE,
            ("    if (busq_group_suspects(&self->group, head->to)) {", "    if (head->to == self->group.self) {"),
        ),
        (
            "it waits for the dead to say that all of the dead has arrived",
            "stuck",
            TWO,
            ("!busq_group_suspects(&self->group, process) &&\n", "true &&\n"),
        ),
        (
            "a YCT that has come is owed still",
            "invariant",
            TWO,
            ("      other_at(self, packet->from)->to--;\n", "      (void)0;\n"),
        ),
    ),
]
