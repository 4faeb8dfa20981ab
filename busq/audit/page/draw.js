/* SPDX-License-Identifier: Apache-2.0 */
/* How a diagram looks.  What matters most is painted last; labels take the room that more important ones leave. */
"use strict";

const COLOR_NAMES = ["ground", "ink", "soft", "muted", "line", "wrong", "past", "future", "accent",
  ...Array.from({ length: 8 }, (_, number) => `sender-${number}`)];
const DIMMED = 0.16;
const LOOP_MAX = 8; // columns: longer ones to oneself would lie over all between, and are shown when chosen
const HEAD = 6; // the length of an arrow's head

function readColors(host) {
  const style = getComputedStyle(host);
  return Object.fromEntries(COLOR_NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

class Painting {
  constructor(diagram) {
    this.diagram = diagram;
    this.scene = diagram.scene;
    this.colors = diagram.colors;
    this.context = diagram.context;
    this.radius = Math.max(1.6, Math.min(5, diagram.scale * 0.3));
    this.taken = diagram.scene.shown.map(() => []); // per line: where labels stand, as [side, left, right]
  }

  draw() {
    const { context, diagram } = this;
    context.clearRect(0, 0, diagram.width, diagram.height);
    context.save();
    context.beginPath();
    context.rect(diagram.gutter, 0, diagram.width - diagram.gutter, diagram.height);
    context.clip();
    this.drawLines();
    if (diagram.selected >= 0) this.drawCones();
    this.drawArrows();
    this.drawEvents();
    this.drawMissing();
    this.drawLabels(true);
    this.drawGaps();
    this.drawLabels(false);
    context.restore();
    this.drawNames();
    if (!diagram.visible) this.text("No process is shown: choose some above.", diagram.gutter + 12, TOP + 20, "soft");
  }

  // ---- small strokes ----

  stroke(color, width, alpha, points, dash = []) {
    const context = this.context;
    context.globalAlpha = alpha;
    context.strokeStyle = this.colors[color];
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  dot(x, y, radius, fill, edge, width = 1.5) {
    const context = this.context;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = this.colors[fill];
    context.fill();
    if (edge) {
      context.strokeStyle = this.colors[edge];
      context.lineWidth = width;
      context.stroke();
    }
  }

  text(text, x, y, color, align = "left", weight = "") {
    const context = this.context;
    context.font = `${weight} ${LABEL_FONT}`;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillStyle = this.colors[color];
    context.fillText(text, x, y);
  }

  /* 1 for what is chosen or belongs to its past or future, or if nothing is chosen. */
  strength(event) {
    const { selected, past, future } = this.diagram;
    return selected < 0 || event === selected || past[event] || future[event] ? 1 : DIMMED;
  }

  inSight(first, second) {
    const { gutter, width } = this.diagram;
    return Math.max(first, second) >= gutter - 40 && Math.min(first, second) <= width + 40;
  }

  // ---- lines of processes ----

  drawLines() {
    const { diagram, scene } = this;
    scene.shown.forEach((_, line) => {
      if (!diagram.lines[line]) return;
      const y = diagram.y(line);
      const from = Math.max(diagram.gutter, diagram.x(0) - EDGE / 2);
      this.stroke("line", 1, 1, [[from, y], [Math.min(diagram.width, diagram.x(scene.columns - 1) + EDGE / 2), y]]);
    });
  }

  /* The past is the beginning of a line, the future its end. */
  drawCones() {
    const { diagram, scene } = this;
    scene.events.forEach((events, line) => {
      if (!diagram.lines[line]) return;
      const past = events.filter((event) => diagram.past[event] || event === diagram.selected);
      const future = events.filter((event) => diagram.future[event] || event === diagram.selected);
      const y = diagram.y(line);
      if (past.length) {
        this.band("past", diagram.x(scene.column[past[0]]), diagram.x(scene.column[past[past.length - 1]]), y);
      }
      if (future.length) {
        this.band("future", diagram.x(scene.column[future[0]]), diagram.x(scene.column[future[future.length - 1]]), y);
      }
    });
  }

  band(color, left, right, y) {
    const context = this.context;
    context.globalAlpha = 0.32;
    context.strokeStyle = this.colors[color];
    context.lineWidth = 2 * this.radius + 8;
    context.lineCap = "round";
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(right + 0.01, y);
    context.stroke();
    context.lineCap = "butt";
    context.globalAlpha = 1;
  }

  // ---- arrows ----

  drawArrows() {
    const { diagram, scene } = this;
    for (const [first, second] of scene.through) this.arrow(first, second, "muted", 1, [2, 4]);
    const late = [];
    const isChosen = (event) => event === diagram.selected || event === diagram.hovered;
    for (const edge of scene.edges) {
      if ((scene.isWitness[edge[0]] && scene.isWitness[edge[1]]) || isChosen(edge[0]) || isChosen(edge[1])) late.push(edge);
      else this.arrow(...edge, scene.colorOf(edge[0]), 1.1);
    }
    for (const [first, second] of late) {
      const isWitness = scene.isWitness[first] && scene.isWitness[second];
      this.arrow(first, second, isWitness ? "wrong" : scene.colorOf(first), isWitness ? 2.2 : 1.8);
    }
    for (const [first, second] of scene.backwards) this.arrow(first, second, "wrong", 1.5, [5, 3]);
    for (let event = 0; event < scene.count; event++) {
      if (diagram.isDelivery(event) && scene.sendOf[event] < 0) this.stub(event);
    }
  }

  arrow(first, second, color, width, dash = []) {
    const { diagram } = this;
    if (!diagram.isShown(first) || !diagram.isShown(second)) return;
    const [x1, y1] = diagram.place(first), [x2, y2] = diagram.place(second);
    if (!this.inSight(x1, x2)) return;
    const alpha = Math.min(this.strength(first), this.strength(second)) * (width < 1.5 ? 0.55 : 1);
    if (y1 === y2) {
      if (width < 1.5 && this.scene.column[second] - this.scene.column[first] > LOOP_MAX) return;
      this.loop(x1, x2, y1, color, width, alpha);
      return;
    }
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
    const [tipX, tipY] = [x2 - ux * (this.radius + 1), y2 - uy * (this.radius + 1)];
    const head = diagram.scale < 5 ? 0 : HEAD;
    this.stroke(color, width, alpha, [[x1, y1], [tipX - ux * head * 0.8, tipY - uy * head * 0.8]], dash);
    if (head) this.head(tipX, tipY, ux, uy, color, alpha);
  }

  head(x, y, ux, uy, color, alpha) {
    const context = this.context;
    context.globalAlpha = alpha;
    context.fillStyle = this.colors[color];
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - ux * HEAD - uy * 2.8, y - uy * HEAD + ux * 2.8);
    context.lineTo(x - ux * HEAD + uy * 2.8, y - uy * HEAD - ux * 2.8);
    context.fill();
    context.globalAlpha = 1;
  }

  /* A message of a process to itself. */
  loop(x1, x2, y, color, width, alpha) {
    const context = this.context;
    const depth = Math.min(this.diagram.pitch * 0.3, 8 + Math.abs(x2 - x1) * 0.12);
    context.globalAlpha = alpha;
    context.strokeStyle = this.colors[color];
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x1, y);
    context.bezierCurveTo(x1 + 4, y + depth * 1.4, x2 - 4, y + depth * 1.4, x2, y + this.radius);
    context.stroke();
    context.globalAlpha = 1;
  }

  /* A delivery of what was sent before, or beside, what is shown. */
  stub(event) {
    const { diagram, scene } = this;
    if (!diagram.isShown(event) || diagram.scale < 8) return;
    const [x, y] = diagram.place(event);
    if (!this.inSight(x, x)) return;
    this.stroke(scene.colorOf(event), 1.1, this.strength(event) * 0.7, [[x - 7, y - 13], [x - 2, y - this.radius]], [2, 2]);
  }

  // ---- events ----

  drawEvents() {
    const { diagram, scene, context } = this;
    for (let event = 0; event < scene.count; event++) {
      if (!diagram.isShown(event)) continue;
      const [x, y] = diagram.place(event);
      if (!this.inSight(x, x)) continue;
      context.globalAlpha = this.strength(event);
      this.mark(event, x, y);
      if (scene.isWitness[event]) {
        context.strokeStyle = this.colors.wrong;
        context.lineWidth = 2;
        context.beginPath();
        context.arc(x, y, this.radius + 4, 0, 2 * Math.PI);
        context.stroke();
      }
      context.globalAlpha = 1;
      if (event === diagram.selected) this.halo(x, y, "ink", 2.5);
      else if (event === diagram.hovered) this.halo(x, y, "soft", 1.5);
    }
  }

  halo(x, y, color, width) {
    const context = this.context;
    context.strokeStyle = this.colors[color];
    context.lineWidth = width;
    context.beginPath();
    context.arc(x, y, this.radius + 7, 0, 2 * Math.PI);
    context.stroke();
  }

  /* A send is full, a delivery hollow, anything else a small square. */
  mark(event, x, y) {
    const { scene, context } = this;
    const color = scene.colorOf(event);
    if (scene.kind[event] === KIND.SEND) this.dot(x, y, this.radius, color, null);
    else if (this.diagram.isDelivery(event)) {
      this.dot(x, y, this.radius - 0.4, "ground", color, this.radius > 3 ? 1.8 : 1.2);
    } else {
      const side = this.radius * 1.5;
      context.fillStyle = this.colors.muted;
      context.fillRect(x - side / 2, y - side / 2, side, side);
    }
  }

  // ---- words ----

  drawGaps() {
    const { diagram, scene } = this;
    for (const [line, column, beside, count] of scene.gaps) {
      const x = diagram.x(column) + beside;
      if (!diagram.lines[line] || !this.inSight(x, x)) continue;
      const y = diagram.y(line);
      this.context.fillStyle = this.colors.ground;
      this.context.fillRect(x - 5, y - 4, 10, 8);
      for (const dx of [-3, 2]) this.stroke("soft", 1.2, 1, [[x + dx - 2, y + 5], [x + dx + 2, y - 5]]);
      this.label(line, x, 1, `${thousands(count)} more`, "soft", 1, "", false);
    }
  }

  /* An arrow that never arrives. */
  drawMissing() {
    const { diagram, scene } = this;
    for (const [send, line, column] of scene.missing) {
      if (!diagram.isShown(send) || !diagram.lines[line]) continue;
      const [x1, y1] = diagram.place(send);
      const isOwn = line === scene.line[send];
      const [x2, y2] = isOwn ? [x1 + 24, y1 + 24] : [diagram.x(column), diagram.y(line)];
      this.stroke("wrong", 2, 1, [[x1, y1], [x2, y2]], [6, 4]);
      for (const sign of [-1, 1]) this.stroke("wrong", 2.4, 1, [[x2 - 5, y2 - 5 * sign], [x2 + 5, y2 + 5 * sign]]);
      this.label(line, x2, isOwn ? 2 : 1, `never ${shorten(scene.nameOf(send))}`, "wrong", 1, "bold", true);
    }
  }

  /* The important ones first: of what is chosen, then of the witness. */
  drawLabels(isImportant) {
    const { diagram, scene } = this;
    const isFirst = (event) => event === diagram.selected || event === diagram.hovered;
    const order = isImportant
      ? [[isFirst, "bold"], [(event) => scene.isWitness[event] && !isFirst(event), "bold"]]
      : [[(event) => !scene.isWitness[event] && !isFirst(event), ""]];
    for (const [isMeant, weight] of order) {
      if (!weight && diagram.scale < 9) continue;
      for (let event = 0; event < scene.count; event++) {
        if (!isMeant(event) || !diagram.isShown(event)) continue;
        const [x] = diagram.place(event);
        if (!this.inSight(x, x)) continue;
        const color = scene.isWitness[event] ? "wrong" : scene.colorOf(event) === "muted" ? "soft" : scene.colorOf(event);
        const side = scene.kind[event] === KIND.SEND ? -1 : 1;
        this.label(scene.line[event], x, side, shorten(scene.nameOf(event)), color, this.strength(event), weight, isImportant);
      }
    }
  }

  /* Write at a line, above (-1) or below it (1), unless something stands there already; what must be read, nearby. */
  label(line, x, side, text, color, alpha, weight, isForced) {
    const { context, diagram } = this;
    if (!text || (alpha < 1 && !isForced)) return;
    context.font = `${weight} ${LABEL_FONT}`;
    const half = context.measureText(text).width / 2 + 3;
    const isFree = (row) =>
      !this.taken[line].some(([other, left, right]) => other === row && left < x + half && right > x - half);
    const row = (isForced ? [side, -side, 2 * side, -2 * side] : [side]).find(isFree);
    if (row === undefined || x - half < diagram.gutter - 3) return;
    this.taken[line].push([row, x - half, x + half]);
    const y = diagram.y(line) + Math.sign(row) * (this.radius + 14 * Math.abs(row));
    context.globalAlpha = 0.82;
    context.fillStyle = this.colors.ground;
    context.fillRect(x - half + 1, y - 7, 2 * half - 2, 14);
    context.globalAlpha = 1;
    this.text(text, x, y, color, "center", weight);
  }

  drawNames() {
    const { context, diagram, scene } = this;
    context.fillStyle = this.colors.ground;
    context.fillRect(0, 0, diagram.gutter, diagram.height);
    scene.shown.forEach((process, line) => {
      const y = diagram.y(line);
      if (!diagram.lines[line] || y < -10 || y > diagram.height + 10) return;
      this.dot(9, y, 4, scene.colors[line], null);
      context.save();
      context.beginPath();
      context.rect(0, y - 12, diagram.gutter - 6, 24);
      context.clip();
      this.text(shorten(diagram.run.processes[process]), 20, y, "ink", "left", "600");
      context.restore();
    });
    this.stroke("line", 1, 1, [[diagram.gutter - 0.5, 0], [diagram.gutter - 0.5, diagram.height]]);
  }
}
