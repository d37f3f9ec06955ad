"use strict";
// Everything from events goes in as text nodes: judged text is hostile, and never becomes markup.
let before = null;

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function row(...cells) {
  const made = document.createElement("tr");
  made.append(...cells.map(([text, className]) => element("td", text, className)));
  return made;
}

function fill(id, rows, columns) {
  const empty = element("td", "no data yet");
  empty.colSpan = columns;
  const line = document.createElement("tr");
  line.append(empty);
  document.getElementById(id).replaceChildren(...(rows.length ? rows : [line]));
}

const number = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);

function show(status) {
  const state = document.getElementById("state");
  state.dataset.ok = String(status.ready);
  state.textContent = [
    status.ready ? `ready, group ${status.group_id}` : status.reasons.join("; "),
    ...(status.notes ?? []),
  ].join("; ");
  const read = total(status.events);
  const seconds = before ? status.running_seconds - before.seconds : 0;
  const rate = seconds > 0 ? (read - before.read) / seconds : null;
  before = { read, seconds: status.running_seconds };
  const facts = [
    ["events read", String(read)],
    ["events a second", number(rate, 1)],
    ...Object.entries(status.events),
    ["records in hand", String(status.unfinished)],
    ...Object.entries(status.lag_records).map(([topic, lag]) => [`lag of ${topic}`, lag]),
  ];
  document.getElementById("flow").replaceChildren(...facts.map(([name, value]) => {
    const box = document.createElement("div");
    box.append(element("dt", name), element("dd", String(value)));
    return box;
  }));
  fill("means", status.series.map((one) => row(
    [one.metric],
    [Object.entries(one.labels).map(([name, value]) => `${name}=${value}`).join(" ") || "all"],
    [number(one.mean, 2), "number"],
    [one.mean === null ? "–" : `${number(one.low, 2)} to ${number(one.high, 2)}`, "number"],
    [String(one.scored), "number"],
    [String(one.unscored + one.failed), "number"],
    [one.state, one.state === "dropped" ? "dropped" : ""],
  )), 7);
  fill("verdicts", status.verdicts.map((one) => row(
    [one.metric],
    [one.event_id],
    [one.score === null ? one.status : String(one.score), "number"],
    [one.reason],
  )), 4);
}

async function refresh() {
  try {
    const answer = await fetch("/status.json", { cache: "no-store" });
    show(await answer.json());
  } catch {
    const state = document.getElementById("state");
    state.dataset.ok = "false";
    state.textContent = "the worker does not answer";
  }
  setTimeout(refresh, 2000);
}

refresh();
