/* SPDX-License-Identifier: Apache-2.0 */
/* A space-time diagram of a scene: a line per process, time to the right, an arrow from each send to its deliveries.
 *
 * Drawn on a canvas, and of it only what is in sight, so that thousands of events move smoothly.  What logs say reaches
 * the page as text alone (textContent, fillText), never as markup.
 */
"use strict";

const SCALE_MIN = 0.4, SCALE_MAX = 160, SCALE_READABLE = 15, SCALE_FIT_MAX = 96; // pixels per column
const EDGE = 26; // free on both sides of the events
const TOP = 30, BOTTOM = 30, HEIGHT_MAX = 620;
const NEAR = 12; // how far from an event a pointer may be
const NAME_FONT = "600 11px system-ui, sans-serif", LABEL_FONT = "11px system-ui, sans-serif";

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

class Diagram {
  constructor(host, run) {
    this.host = host;
    this.run = run;
    this.scenes = run.scenes.map((data) => new Scene(data, run.processes));
    this.hidden = new Set(); // processes of the run
    this.selected = this.hovered = -1;
    this.pointers = new Map();
    this.build();
    this.listen();
    this.open(run.first);
  }

  // ---- what stands around the picture ----

  build() {
    this.tabs = make("div", "tabs");
    this.tabs.setAttribute("role", "group");
    this.tabs.setAttribute("aria-label", "What to show");
    this.scenes.forEach((scene, number) => {
      const button = make("button", "tab", scene.check || "whole run");
      button.type = "button";
      button.addEventListener("click", () => this.open(number));
      this.tabs.append(button);
    });
    const zoom = make("div", "zoom");
    for (const [sign, name, act] of [["−", "Zoom out", () => this.zoom(1 / 1.4)], ["+", "Zoom in", () => this.zoom(1.4)],
      ["Fit", "Show all of it", () => this.fit()]]) {
      const button = make("button", "", sign);
      button.type = "button";
      button.title = name;
      button.setAttribute("aria-label", name);
      button.addEventListener("click", act);
      zoom.append(button);
    }
    const bar = make("div", "bar");
    bar.append(this.tabs, zoom);
    this.caption = make("p", "caption");
    this.note = make("p", "note");
    this.chips = make("div", "chips");
    this.frame = make("div", "frame");
    this.canvas = make("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Space-time diagram. Arrow keys go from event to event, plus and minus zoom, "
      + "Enter follows a message, W goes to the witness, Escape clears the choice.");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.frame.append(this.canvas, this.tip);
    this.details = make("div", "details");
    this.details.setAttribute("aria-live", "polite");
    this.host.append(bar, this.caption, this.note, this.chips, this.frame, this.legend(), this.details);
    this.context = this.canvas.getContext("2d");
  }

  legend() {
    const legend = make("ul", "legend");
    for (const [mark, text] of [["send", "send"], ["deliver", "delivery"], ["wrong", "witness"], ["past", "its past"],
      ["future", "its future"], ["through", "by way of events not shown"]]) {
      const item = make("li");
      item.append(make("span", `mark ${mark}`), text);
      legend.append(item);
    }
    return legend;
  }

  /* A box for each process, to show or hide its line. */
  choose() {
    this.chips.replaceChildren();
    this.boxes = new Map();
    for (const process of this.scene.shown) {
      const chip = make("label", "chip");
      const box = make("input");
      box.type = "checkbox";
      box.checked = !this.hidden.has(process);
      box.addEventListener("change", () => {
        if (box.checked) this.hidden.delete(process);
        else this.hidden.add(process);
        this.resize();
      });
      chip.append(box, make("span", "", this.run.processes[process]));
      this.chips.append(chip);
      this.boxes.set(process, box);
    }
    const all = make("button", "link", "all");
    all.type = "button";
    all.addEventListener("click", () => this.showOnly(this.scene.shown));
    const some = make("button", "link", "those of the witness");
    some.type = "button";
    some.hidden = !this.scene.witness.length;
    some.addEventListener("click", () => this.showOnly(this.scene.witness.map((e) => this.scene.shown[this.scene.line[e]])));
    this.chips.append(all, some);
  }

  showOnly(processes) {
    this.hidden = new Set(this.scene.shown.filter((process) => !processes.includes(process)));
    for (const [process, box] of this.boxes) box.checked = !this.hidden.has(process);
    this.resize();
  }

  /* Show a scene of this run, and of it the witness. */
  open(number) {
    this.scene = this.scenes[number];
    [...this.tabs.children].forEach((tab, i) => tab.setAttribute("aria-pressed", String(i === number)));
    this.hidden = new Set([...this.hidden].filter((process) => !this.scene.check && this.scene.shown.includes(process)));
    for (const [place, text] of [[this.caption, this.scene.text], [this.note, this.scene.note]]) {
      place.textContent = text;
      place.hidden = !text;
    }
    this.colors = null;
    this.choose();
    this.select(-1);
    this.resize();
    this.fit();
    if (this.scene.witness.length) this.toWitness();
    else if (this.scale < SCALE_READABLE) {
      this.scale = SCALE_READABLE;
      this.left = 0;
      this.redraw();
    }
  }

  openCheck(check) {
    const number = this.scenes.findIndex((scene) => scene.check === check);
    if (number < 0) return;
    this.open(number);
    this.host.scrollIntoView({ block: "nearest" });
    this.canvas.focus({ preventScroll: true });
  }

  // ---- where things stand ----

  resize() {
    this.lines = this.scene.shown.map((process) => !this.hidden.has(process));
    this.visible = this.lines.filter(Boolean).length;
    this.pitch = this.visible <= 4 ? 78 : this.visible <= 8 ? 62 : this.visible <= 16 ? 46 : 34;
    this.width = this.frame.clientWidth;
    const wanted = TOP + BOTTOM + Math.max(1, this.visible) * this.pitch;
    this.height = Math.min(wanted, HEIGHT_MAX);
    this.topMax = wanted - this.height;
    this.top = Math.min(this.top || 0, this.topMax);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = NAME_FONT;
    const names = this.scene.shown.map((process) => shorten(this.run.processes[process]));
    const widest = Math.max(30, ...names.map((name) => this.context.measureText(name).width));
    this.gutter = Math.min(widest + 30, Math.max(70, this.width * 0.3));
    this.ys = [];
    let row = 0;
    this.lines.forEach((isShown, line) => {
      this.ys[line] = TOP + (row + 0.5) * this.pitch;
      if (isShown) row++;
    });
    if (this.onScreen) this.fit(); // paper can't be moved
    this.redraw();
  }

  recolor() {
    this.colors = null;
    this.draw();
  }

  x(column) {
    return this.gutter + EDGE + (column - this.left) * this.scale;
  }

  y(line) {
    return this.ys[line] - this.top;
  }

  place(event) {
    return [this.x(this.scene.column[event]), this.y(this.scene.line[event])];
  }

  isShown(event) {
    return this.lines[this.scene.line[event]];
  }

  get room() {
    return Math.max(40, this.width - this.gutter - 2 * EDGE);
  }

  fit() {
    this.show(0, this.scene.columns - 1, 0);
  }

  /* Bring columns into sight, at a scale that can be read where that is possible. */
  show(first, last, scaleMin) {
    const scale = this.room / Math.max(1, last - first);
    this.scale = Math.min(SCALE_FIT_MAX, Math.max(scaleMin, SCALE_MIN, scale));
    const free = this.room / this.scale - (last - first);
    this.left = first - Math.max(0, free > 0 && this.scene.columns * this.scale > this.room ? free / 2 : 0);
    this.clamp();
  }

  toWitness() {
    const columns = this.scene.witness.map((event) => this.scene.column[event]);
    for (const event of this.scene.witness) this.hidden.delete(this.scene.shown[this.scene.line[event]]);
    for (const [process, box] of this.boxes) box.checked = !this.hidden.has(process);
    this.resize();
    const first = Math.min(...columns), last = Math.max(...columns);
    const margin = Math.max(2, Math.min(8, Math.floor((this.room / SCALE_READABLE - (last - first)) / 2)));
    this.show(Math.max(0, first - margin), Math.min(this.scene.columns - 1, last + margin), 0);
  }

  zoom(factor, at = this.gutter + EDGE + this.room / 2) {
    const column = this.left + (at - this.gutter - EDGE) / this.scale;
    this.scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, this.scale * factor));
    this.left = column - (at - this.gutter - EDGE) / this.scale;
    this.clamp();
  }

  move(dx, dy) {
    this.left += dx / this.scale;
    this.top = Math.min(this.topMax, Math.max(0, this.top + dy));
    this.clamp();
  }

  clamp() {
    const span = this.room / this.scale;
    const most = Math.max(0, this.scene.columns - 1 - span / 2);
    this.left = Math.min(most, Math.max(Math.min(0, -span / 2 + 2), this.left));
    this.redraw();
  }

  // ---- choosing events ----

  select(event) {
    this.selected = event;
    const scene = this.scene;
    this.past = event < 0 ? null : scene.reach(event, scene.before);
    this.future = event < 0 ? null : scene.reach(event, scene.after);
    this.describe();
    this.redraw();
  }

  describe() {
    const scene = this.scene, event = this.selected;
    this.details.replaceChildren();
    if (event < 0) {
      this.details.append(make("p", "hint", "Time goes to the right. Choose an event, by mouse or arrow keys, to see its "
        + "causal past and future. Drag to move; Ctrl + wheel, a pinch, + and − zoom. Enter follows a message, "
        + (scene.witness.length ? "w goes to the witness, " : "") + "Escape clears the choice."));
      return;
    }
    const sum = (flags) => flags.reduce((a, b) => a + b, 0);
    const [past, future] = [sum(this.past), sum(this.future)];
    this.details.append(make("p", "event", scene.words(event)));
    const list = make("dl");
    for (const [name, value] of this.facts(event)) list.append(make("dt", "", name), make("dd", "", value));
    const rest = scene.count - 1 - past - future;
    list.append(make("dt", "", "order"), make("dd", "", `${thousands(past)} events shown are in its past, `
      + `${thousands(future)} in its future, ${thousands(rest)} are concurrent with it`));
    this.details.append(list, this.ways(event));
  }

  * facts(event) {
    const scene = this.scene, message = scene.message[event];
    if (scene.position[event] !== null) yield ["position", thousands(scene.position[event])];
    if (message >= 0 && scene.messages[message][1] >= 0) yield ["sender", this.run.processes[scene.messages[message][1]]];
    if (event in scene.to) {
      const to = scene.to[event];
      const names = to.slice(0, 12).map((process) => this.run.processes[process] ?? `process ${process}`);
      yield ["to", names.join(", ") + (to.length > 12 ? ` and ${to.length - 12} more` : "")];
    }
    if (event in scene.stamp) yield ["stamp", scene.stamp[event]];
    if (event in scene.time) yield ["time", `${(scene.time[event] / 1000).toFixed(3)} µs after the first shown`];
    if (event in scene.label && scene.label[event] !== scene.nameOf(event)) yield ["text", scene.label[event]];
  }

  /* Buttons that lead along a message. */
  ways(event) {
    const ways = make("p", "ways");
    const add = (other) => {
      const button = make("button", "link", this.scene.words(other));
      button.type = "button";
      button.addEventListener("click", () => this.goTo(other));
      ways.append(button);
    };
    const send = this.scene.sendOf[event];
    if (send >= 0) add(send);
    else if (this.isDelivery(event)) ways.append(make("span", "hint", "its send is not in this picture"));
    for (const delivery of this.scene.deliveries.get(event) || []) add(delivery);
    return ways;
  }

  isDelivery(event) {
    return this.scene.kind[event] === KIND.DELIVER || this.scene.kind[event] === KIND.REDELIVER;
  }

  goTo(event) {
    const process = this.scene.shown[this.scene.line[event]];
    if (this.hidden.delete(process)) {
      this.boxes.get(process).checked = true;
      this.resize();
    }
    this.select(event);
    const [x, y] = this.place(event);
    if (x < this.gutter + EDGE || x > this.width - EDGE) this.move(x - this.gutter - EDGE - this.room / 2, 0);
    if (y < TOP || y > this.height - BOTTOM) this.move(0, y - this.height / 2);
  }

  nearest(x, y) {
    let found = -1, best = NEAR * NEAR;
    if (x < this.gutter) return -1;
    for (let event = 0; event < this.scene.count; event++) {
      if (!this.isShown(event)) continue;
      const [ex, ey] = this.place(event);
      const distance = (ex - x) ** 2 + (ey - y) ** 2;
      if (distance < best) [found, best] = [event, distance];
    }
    return found;
  }

  /* The event beside this one on its line, or the one closest to it on the next line that is shown. */
  beside(event, dx, dy) {
    const scene = this.scene;
    if (dx) {
      const events = scene.events[scene.line[event]];
      return events[events.indexOf(event) + dx] ?? event;
    }
    for (let line = scene.line[event] + dy; line >= 0 && line < scene.shown.length; line += dy) {
      if (!this.lines[line] || !scene.events[line].length) continue;
      const from = scene.column[event];
      return scene.events[line].reduce((a, b) =>
        Math.abs(scene.column[b] - from) < Math.abs(scene.column[a] - from) ? b : a);
    }
    return event;
  }

  first() {
    if (this.scene.witness.length) return this.scene.witness.find((event) => this.isShown(event)) ?? -1;
    const shown = [...this.scene.line.keys()].filter((event) => this.isShown(event));
    return shown.find((event) => this.place(event)[0] >= this.gutter) ?? shown[0] ?? -1;
  }

  // ---- input ----

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.onUp(event));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => this.redraw());
    new ResizeObserver(() => {
      if (this.frame.clientWidth && this.frame.clientWidth !== this.width) this.resize();
    }).observe(this.frame);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    window.matchMedia("print").addEventListener("change", (event) => {
      if (event.matches) this.onScreen = [this.left, this.scale, this.top];
      else [this.left, this.scale, this.top] = this.onScreen || [this.left, this.scale, this.top];
      this.onScreen = event.matches ? this.onScreen : null;
      this.resize();
      this.recolor();
    });
  }

  onWheel(event) {
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * unit * 0.003), event.offsetX);
    else if (event.shiftKey) this.move((event.deltaX || event.deltaY) * unit, 0);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX * unit, 0);
    else return; // up and down scrolls the page
    event.preventDefault();
  }

  onDown(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.moved = 0;
  }

  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.hover(this.nearest(event.offsetX, event.offsetY));
      return;
    }
    const now = [event.offsetX, event.offsetY];
    const [dx, dy] = [before[0] - now[0], before[1] - now[1]];
    const other = [...this.pointers].find(([id]) => id !== event.pointerId);
    if (other) {
      const [ox, oy] = other[1];
      const spread = (point) => Math.hypot(point[0] - ox, point[1] - oy);
      this.zoom(spread(now) / Math.max(1, spread(before)), (now[0] + ox) / 2);
    }
    this.moved += Math.abs(dx) + Math.abs(dy);
    this.pointers.set(event.pointerId, now);
    if (this.moved > 4) {
      this.hover(-1);
      this.move(other ? dx / 2 : dx, dy);
    }
  }

  onUp(event) {
    if (this.pointers.delete(event.pointerId) && this.moved <= 4 && event.type === "pointerup") {
      this.select(this.nearest(event.offsetX, event.offsetY));
    }
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const acts = {
      "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), "0": () => this.fit(),
      PageUp: () => this.move(-this.room * 0.8, 0), PageDown: () => this.move(this.room * 0.8, 0),
      Home: () => this.move(-Infinity, 0), End: () => this.move(1e9, 0),
      Escape: () => this.select(-1), Enter: () => this.follow(),
      w: () => this.scene.witness.length && this.toWitness(),
    };
    if (event.key in steps && event.shiftKey) this.move(steps[event.key][0] * 80, steps[event.key][1] * 40);
    else if (event.key in steps) {
      const from = this.selected >= 0 && this.isShown(this.selected) ? this.selected : -1;
      const to = from < 0 ? this.first() : this.beside(from, ...steps[event.key]);
      if (to >= 0) this.goTo(to);
    } else if (event.key in acts) acts[event.key]();
    else return;
    event.preventDefault();
  }

  /* From a delivery to its send, from a send to its first delivery. */
  follow() {
    if (this.selected < 0) return;
    const to = this.scene.sendOf[this.selected] >= 0 ? this.scene.sendOf[this.selected]
      : (this.scene.deliveries.get(this.selected) || [-1])[0];
    if (to >= 0) this.goTo(to);
  }

  hover(event) {
    if (event === this.hovered) return;
    this.hovered = event;
    this.canvas.style.cursor = event < 0 ? "" : "pointer";
    this.tip.hidden = event < 0;
    if (event >= 0) {
      this.tip.replaceChildren(make("b", "", this.scene.words(event)));
      for (const [name, value] of this.facts(event)) this.tip.append(make("span", "", `${name} ${value}`));
      const [x, y] = this.place(event);
      this.tip.style.left = `${Math.max(4, Math.min(x + 14, this.width - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${y > this.height / 2 ? y - this.tip.offsetHeight - 12 : y + 14}px`;
    }
    this.redraw();
  }

  // ---- drawing, in draw.js ----

  redraw() {
    if (this.frameAsked) return;
    this.frameAsked = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frameAsked = false;
    if (!this.width) return;
    this.colors ||= readColors(this.host);
    new Painting(this).draw();
  }
}
