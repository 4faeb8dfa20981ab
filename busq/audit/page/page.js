/* SPDX-License-Identifier: Apache-2.0 */
/* A page beside its diagrams: it shows one run at a time, jumps to witnesses and sorts tables. */
"use strict";

const found = JSON.parse(document.getElementById("data").textContent);
const diagrams = new Map(); // by the number of the run, made when it is first shown
let shownRun = -1;

function openRun(number) {
  shownRun = number;
  for (const section of document.querySelectorAll(".run")) section.hidden = section.dataset.run !== String(number);
  for (const row of document.querySelectorAll(".runs tbody tr")) {
    row.classList.toggle("chosen", row.dataset.run === String(number));
  }
  const host = document.querySelector(`.run[data-run="${number}"] .diagram`);
  const run = found.runs[number];
  if (host && run && run.scenes.length && !diagrams.has(number)) diagrams.set(number, new Diagram(host, run));
}

/* Numbers are sorted as numbers, and what has none comes last. */
function sortBy(table, column, isUp) {
  const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    const [m, n] = [x === "" ? NaN : Number(x), y === "" ? NaN : Number(y)];
    if (Number.isNaN(m) !== Number.isNaN(n)) return Number.isNaN(m) ? 1 : -1;
    const order = Number.isNaN(m) ? x.localeCompare(y, "en") : m - n;
    return isUp ? order : -order;
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = make("button", "", cell.textContent);
    button.type = "button";
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const isUp = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      sortBy(table, column, isUp);
    });
  });
}

document.documentElement.classList.add("scripted");
for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
for (const row of document.querySelectorAll(".runs tbody tr[data-run]")) {
  row.querySelector("button").addEventListener("click", () => openRun(Number(row.dataset.run)));
}
for (const button of document.querySelectorAll("button[data-check]")) {
  const number = Number(button.closest(".run").dataset.run);
  button.addEventListener("click", () => diagrams.get(number)?.openCheck(button.dataset.check));
}
for (const host of document.querySelectorAll("[data-table]")) new DataTable(host, found.tables[host.dataset.table]);
const firstRun = document.querySelector(".run");
if (firstRun) openRun(Number(firstRun.dataset.run));
