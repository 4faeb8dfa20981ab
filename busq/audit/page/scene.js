/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a scene, their names, and which of them follow from which.  Python has laid them out: every event has a
 * line and a column, every message a colour. */
"use strict";

const KIND = { DELIVER: 0, SEND: 1, LOCAL: 2, REDELIVER: 3, ABORT: 4, STAGE: 5, SEAL: 6, BLOCK: 7, JOIN: 8, LEAVE: 9,
  GAP: 10 };
const DOES = ["delivers", "sends", "does", "gets again", "aborts", "stages", "seals", "waits", "joins", "leaves",
  "lost events"];
const LABEL_MAX = 22;

function shorten(text) {
  return text.length > LABEL_MAX ? text.slice(0, LABEL_MAX - 1) + "…" : text;
}

function thousands(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/* The events of a scene and which of them follow from which. */
class Scene {
  constructor(data, processes) {
    Object.assign(this, data);
    this.processes = processes;
    this.count = this.line.length;
    this.isWitness = new Uint8Array(this.count);
    for (const event of this.witness) this.isWitness[event] = 1;
    this.events = this.shown.map(() => []);
    for (let event = 0; event < this.count; event++) this.events[this.line[event]].push(event);
    this.sendOf = new Int32Array(this.count).fill(-1);
    this.deliveries = new Map();
    for (const [send, delivery] of [...this.edges, ...this.backwards]) {
      this.sendOf[delivery] = send;
      if (!this.deliveries.has(send)) this.deliveries.set(send, []);
      this.deliveries.get(send).push(delivery);
    }
    this.link();
  }

  link() {
    this.after = Array.from({ length: this.count }, () => []);
    this.before = Array.from({ length: this.count }, () => []);
    const add = (first, second) => {
      this.after[first].push(second);
      this.before[second].push(first);
    };
    for (const events of this.events) {
      for (let i = 1; i < events.length; i++) add(events[i - 1], events[i]);
    }
    for (const [first, second] of this.edges) add(first, second);
    for (const [first, second] of this.through) add(first, second);
  }

  /* All events that can be reached, the event itself left out. */
  reach(event, next) {
    const found = new Uint8Array(this.count);
    const stack = [event];
    while (stack.length) {
      for (const other of next[stack.pop()]) {
        if (!found[other]) {
          found[other] = 1;
          stack.push(other);
        }
      }
    }
    found[event] = 0;
    return found;
  }

  nameOf(event) {
    const message = this.message[event];
    return message < 0 ? this.label[event] || "" : this.messages[message][0];
  }

  processOf(event) {
    return this.processes[this.shown[this.line[event]]];
  }

  colorOf(event) {
    const message = this.message[event];
    return message < 0 ? "muted" : this.messages[message][2];
  }

  /* An event in words. */
  words(event) {
    const kind = this.kind[event];
    return `${this.processOf(event)} ${DOES[kind] || "does"} ${this.nameOf(event)}`.trim();
  }
}
