/* SPDX-License-Identifier: Apache-2.0 */
/* A table of many rows: sorted by a click on a column, narrowed to chosen values, and only its first rows are made. */
"use strict";

const ROWS_FIRST = 20, ROWS_MORE = 200;

function figure(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return Math.abs(value) < 1e15 ? (value < 0 ? "−" : "") + thousands(Math.abs(value)) : String(value);
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-6 ? value.toExponential(3) : String(Number(value.toPrecision(4)));
}

class DataTable {
  /* `data`: columns, as {name, title, spread}: `spread` is the place of a column with half an interval, which has no
   * title of its own; rows; and axes, the columns whose values can be chosen. */
  constructor(host, data) {
    this.host = host;
    this.data = data;
    this.shown = data.columns.map((column, place) => ({ ...column, place })).filter((column) => column.title);
    this.chosen = new Map();
    this.sorted = null;
    this.limit = ROWS_FIRST;
    this.build();
    this.fill();
  }

  build() {
    const filters = make("div", "filters");
    for (const place of this.data.axes) {
      const values = [...new Set(this.data.rows.map((row) => row[place]))];
      if (values.length < 2 || values.length > 60) continue;
      values.sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en")));
      const select = make("select");
      for (const text of ["all", ...values.map(figure)]) select.append(make("option", "", text));
      select.addEventListener("change", () => {
        if (select.selectedIndex) this.chosen.set(place, values[select.selectedIndex - 1]);
        else this.chosen.delete(place);
        this.limit = ROWS_FIRST;
        this.fill();
      });
      const label = make("label", "", this.data.columns[place].title);
      label.append(select);
      filters.append(label);
    }
    this.body = make("tbody");
    const table = make("table", "plain");
    const row = make("tr");
    this.heads = this.shown.map((column, number) => {
      const head = make("th", this.isNumber(column) ? "number" : "");
      const button = make("button", "", column.title);
      button.type = "button";
      button.addEventListener("click", () => this.sort(number));
      head.append(button);
      row.append(head);
      return head;
    });
    const top = make("thead");
    top.append(row);
    table.append(top, this.body);
    const scroll = make("div", "scroll");
    scroll.append(table);
    this.more = make("button", "link");
    this.more.type = "button";
    this.more.addEventListener("click", () => {
      this.limit += ROWS_MORE;
      this.fill();
    });
    this.count = make("span", "quiet");
    const foot = make("p", "foot");
    foot.append(this.count, " ", this.more);
    this.host.append(filters, scroll, foot);
  }

  isNumber(column) {
    return this.data.rows.every((row) => row[column.place] === null || typeof row[column.place] === "number");
  }

  sort(number) {
    const isUp = !(this.sorted && this.sorted[0] === number && this.sorted[1]);
    this.sorted = [number, isUp];
    this.heads.forEach((head, place) => {
      if (place === number) head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    this.fill();
  }

  rows() {
    const rows = this.data.rows.filter((row) => [...this.chosen].every(([place, value]) => row[place] === value));
    if (!this.sorted) return rows;
    const [number, isUp] = this.sorted;
    const place = this.shown[number].place;
    return rows.sort((a, b) => {
      const [x, y] = [a[place], b[place]];
      if ((x === null) !== (y === null)) return x === null ? 1 : -1; // what has no value comes last
      const order = typeof x === "number" && typeof y === "number" ? x - y : figure(x).localeCompare(figure(y), "en");
      return isUp ? order : -order;
    });
  }

  fill() {
    const rows = this.rows();
    this.body.replaceChildren(...rows.slice(0, this.limit).map((row) => {
      const line = make("tr");
      this.shown.forEach((column) => {
        const cell = make("td", this.isNumber(column) ? "number" : "", figure(row[column.place]));
        const spread = column.spread === undefined ? null : row[column.spread];
        if (spread !== null && spread !== undefined) cell.append(make("span", "spread", ` ± ${figure(Number(spread.toPrecision(2)))}`));
        line.append(cell);
      });
      return line;
    }));
    this.count.textContent = `${thousands(Math.min(rows.length, this.limit))} of ${thousands(rows.length)} rows`;
    this.more.textContent = "show more";
    this.more.hidden = rows.length <= this.limit;
  }
}
