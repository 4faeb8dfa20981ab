/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened is a list of commands, which stands in the address behind the #; the server plays it. */
"use strict";

const $ = (id) => document.getElementById(id);
const PAUSE_MS = 700; // between the steps of random play
let commands = [], ahead = [], state = null, timer = 0, busy = false, search = null;

async function ask(act, more = {}, signal = undefined) {
  const answer = await fetch(act, { method: "POST", body: JSON.stringify({ commands, ...more }), signal });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function say(text, isWrong = false) {
  $("word").textContent = text;
  $("word").className = isWrong ? "wrong" : "";
}

function made(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  element.className = className;
  return element;
}

/* ---- showing ---- */

function showChoices() {
  let number = 0;
  for (const kind of ["arrival", "send", "other"]) {
    const some = state.choices.filter((one) => one.kind === kind);
    $(kind).replaceChildren(...some.map((one) => {
      const button = made("button");
      button.type = "button";
      button.dataset.command = one.command;
      button.append(made("kbd", ++number < 10 ? String(number) : ""), ` ${one.command}`);
      button.addEventListener("click", () => go([...commands, one.command], []));
      return button;
    }));
  }
  $("other-head").hidden = !$("other").children.length;
  $("other").hidden = $("other-head").hidden;
}

function showProperties() {
  $("properties").replaceChildren(...state.properties.map((one) => {
    const word = one.ok ? "holds" : "broken";
    const button = made("button", one.ok ? one.name : `${one.name} is broken`, `${word}${one.claimed ? "" : " unclaimed"}`);
    button.type = "button";
    button.title = one.ok ? `${one.claimed ? "Promised by this order" : "Not promised"}: find the shortest way to break it` : one.text;
    button.addEventListener("click", () => (one.ok ? find(one.name) : say(one.text, true)));
    return button;
  }));
}

function showRest() {
  $("diagram").innerHTML = state.svg; // drawn by the server, which spells out what labels hold
  $("processes").replaceChildren(...state.processes.map((one) => {
    const row = made("tr", "", one.dead ? "dead" : "");
    row.append(made("td", one.name), made("td", `(${one.clock.join(", ")})`), made("td", one.state));
    return row;
  }));
  $("steps").replaceChildren(...state.steps.map((step) => {
    const item = made("li", step.command), caused = made("ul");
    caused.append(...step.caused.map((line) => made("li", line)));
    item.append(caused);
    return item;
  }));
  $("back").disabled = !commands.length;
  $("reset").disabled = !commands.length;
  $("forward").disabled = !ahead.length;
  $("random").disabled = !state.choices.length;
}

function show() {
  const held = document.activeElement && document.activeElement.id;
  showChoices();
  showProperties();
  showRest();
  if (!document.activeElement || document.activeElement === document.body) (held ? $(held) : null)?.focus();
  const broken = state.properties.filter((one) => !one.ok);
  if (state.failure) say(`It ends here: ${state.failure}`, true);
  else if (broken.length) {
    const claimed = broken.filter((one) => one.claimed), first = claimed[0] || broken[0];
    say(`${first.name} is broken, which this order ${claimed.length ? "promises" : "does not promise"}: ${first.text}`, claimed.length);
  }
  else say(state.choices.length ? "" : ["Nothing more can happen.", ...state.remains].join(" "));
}

/* ---- going ---- */

async function go(next, later) {
  if (busy) return;
  busy = true;
  const [before, after] = [commands, ahead];
  [commands, ahead] = [next, later];
  try {
    state = await ask("state");
    history.replaceState(null, "", next.length ? `#${encodeURIComponent(next.join("\n"))}` : location.pathname);
    show();
  } catch (error) {
    [commands, ahead] = [before, after];
    stop();
    say(error.message, true);
    if (!state) await first();
  } finally {
    busy = false;
  }
}

/* Where the address holds what can't be played, the page begins at the beginning, and says why. */
async function first() {
  const why = $("word").textContent;
  commands = [];
  state = await ask("state");
  show();
  say(why, true);
}

function back() {
  if (commands.length) go(commands.slice(0, -1), [commands[commands.length - 1], ...ahead]);
}

function forward() {
  if (ahead.length) go([...commands, ahead[0]], ahead.slice(1));
}

async function randomStep() {
  const arrivals = state.choices.filter((one) => one.kind === "arrival");
  const some = arrivals.length && Math.random() < 0.7 ? arrivals : state.choices;
  if (some.length) await go([...commands, some[Math.floor(Math.random() * some.length)].command], []);
  else stop();
}

function stop() {
  search?.abort(); // the server notices that nobody waits for it
  clearInterval(timer);
  timer = 0;
  $("play").setAttribute("aria-pressed", "false");
}

function play() {
  if (timer) return stop();
  $("play").setAttribute("aria-pressed", "true");
  timer = setInterval(randomStep, PAUSE_MS);
  randomStep();
}

/* The way is laid ahead: Forward takes its steps. */
async function find(name) {
  if (busy) return;
  stop();
  const held = document.activeElement;
  busy = true;
  search = new AbortController();
  $("give-up").hidden = false;
  say(`Searching for the shortest way to break ${name} ...`);
  try {
    const way = await ask("find", { property: name }, search.signal);
    if (way.found) {
      ahead = way.commands;
      showRest();
    }
    say(way.found ? `${way.text} Forward (→) goes there: ${way.commands.join("; ")}` : way.text);
  } catch (error) {
    if (search.signal.aborted) say(`The search for a way to break ${name} was given up.`);
    else say(error.message, true);
  } finally {
    const wasHeld = document.activeElement === $("give-up");
    $("give-up").hidden = true;
    if (wasHeld) held?.focus();
    search = null;
    busy = false;
  }
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied: it leads here while this page is served.");
  } catch {
    say(location.href);
  }
}

async function exportScenario() {
  let text;
  try {
    ({ text } = await ask("scenario"));
  } catch (error) {
    say(error.message, true);
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = "stage.scenario";
  link.click();
  URL.revokeObjectURL(link.href);
  say("Exported: busq diagram stage.scenario draws it, busq.scenario.load plays it.");
}

for (const [id, act] of Object.entries({
  back, forward, random: randomStep, play, reset: () => go([], []), link: copyLink, export: exportScenario,
  "give-up": stop,
})) $(id).addEventListener("click", act);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !state) return;
  const acts = { ArrowLeft: back, ArrowRight: forward, r: randomStep, p: play, Escape: stop };
  const button = /^[1-9]$/.test(event.key) ? document.querySelectorAll(".choices button")[event.key - 1] : null;
  if (!button && !acts[event.key]) return;
  event.preventDefault();
  if (button) button.click();
  else acts[event.key]();
});

const kept = () => decodeURIComponent(location.hash.slice(1)).split("\n").filter(Boolean);
window.addEventListener("hashchange", () => go(kept(), []));
go(kept(), []);
