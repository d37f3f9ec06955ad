import { id, make, words, count, ask, trouble, keys, badge } from "/explore/dom.js";
import { texts } from "/explore/evidence.js";

let queue = { tasks: [] };
let place = 0;
let shown = null;
let revealed = false;
let sending = false;
let given = 0;

function bare(found) {
  // Without the judge's marks, which would bias the labels.
  if (!found.texts) return found;
  const plain = (pieces) => (pieces === null ? null : pieces.map(([text]) => [text, []]));
  return { ...found, items: [], organization: null, texts: { ...found.texts, answer: plain(found.texts.answer), reference: plain(found.texts.reference),
    pages: found.texts.pages.map((page) => ({ ...page, pieces: plain(page.pieces) })) } };
}

// The possible scores with their keys; none for numbers on a long or fine scale.
function choices() {
  const { kind } = shown.result;
  if (kind === "boolean") return [{ key: "1", value: true }, { key: "2", value: false }];
  if (kind === "label") return (queue.labels[shown.metric] ?? []).map((value, place) => ({ key: place < 9 ? String(place + 1) : "", value }));
  const [low, high] = shown.range;
  if (kind === "number" || high - low >= 12) return [];
  return Array.from({ length: high - low + 1 }, (_, place) => ({ key: String(low + place), value: low + place }));
}

function button({ key, value }) {
  const named = typeof value === "number" ? [] : [make("kbd", { text: key }), " "];
  const made = make("button", { type: "button", "aria-label": `Score ${value}` }, ...(key ? named : []), String(value));
  made.addEventListener("click", () => send(value));
  return made;
}

function field() {
  const [low, high] = shown.range;
  const made = make("input", { type: "number", id: "number", min: low, max: high, step: shown.result.kind === "number" ? "any" : "1", className: "score", placeholder: `${low}–${high}`, "aria-label": `Score from ${low} to ${high}` });
  const give = () => { if (made.value !== "" && made.reportValidity()) send(Number(made.value)); };
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    give();
  });
  const button = make("button", { type: "button", text: "Give" });
  button.addEventListener("click", give);
  return [made, button];
}

function show() {
  id("answer").replaceChildren(
    make("h2", { className: "title" }, revealed ? badge(shown, shown.range) : null, make("span", { text: `${shown.metric} ` }), make("span", { className: "name" }, ...words(shown.event_id))),
    ...(revealed ? [make("p", { className: "reason" }, ...words(shown.reason))] : []),
    ...texts(revealed ? shown : bare(shown)));
  const listed = choices();
  id("scores").replaceChildren(...(listed.length ? listed.map(button) : field()));
  id("reveal").setAttribute("aria-pressed", String(revealed));
  id("say").hidden = false;
  id("progress").textContent = `${place + 1} of ${queue.tasks.length}, ${given} given${queue.tasks[place].labelled ? "; already labelled by you" : ""}`;
}

async function open(number) {
  if (number < 0) return;
  place = number;
  revealed = false;
  id("note").value = "";
  if (place >= queue.tasks.length) {
    id("say").hidden = true;
    id("answer").replaceChildren(make("p", { text: queue.tasks.length ? "That was the last one. Thank you." : "No verdict matches." }));
    id("progress").textContent = `${count(given)} labels given`;
    document.body.dataset.busy = "false";
    return;
  }
  try {
    shown = await ask(`/explore/api/verdict/${queue.tasks[place].result_id}`);
    show();
    trouble(null);
  } catch (error) {
    trouble(error);
  }
  document.body.dataset.busy = "false";
}

async function send(score) {
  if (sending || id("say").hidden) return;
  sending = true;
  try {
    const answer = await fetch("/review/api/label", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Review-Token": queue.token },
      body: JSON.stringify({ result_id: queue.tasks[place].result_id, score, note: id("note").value.trim() }),
      signal: AbortSignal.timeout(30000),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.error);
    given += 1;
    queue.tasks[place].labelled = true;
    await open(place + 1);
  } catch (error) {
    trouble(error);
  } finally {
    sending = false;
  }
}

async function start() {
  const form = id("choice");
  const wanted = new URLSearchParams({ kind: form.kind.value, metric: form.metric.value, size: form.size.value });
  if (form.since.value) wanted.set("since", form.since.value);
  if (form.kind.value === "incident") wanted.set("incident", form.incident.value);
  document.body.dataset.busy = "true";
  try {
    queue = await ask(`/review/api/queue?${wanted}`);
    id("who").textContent = `labels by ${queue.who}`;
    given = 0;
    await open(0);
  } catch (error) {
    trouble(error);
  }
}

function reveal() {
  if (id("say").hidden) return;
  revealed = !revealed;
  show();
}

async function prepare() {
  const form = id("choice");
  try {
    const [choices, { incidents }] = await Promise.all([ask("/explore/api/choices"), ask("/explore/api/incidents")]);
    for (const one of choices.metrics) form.metric.append(make("option", { value: one, text: one }));
    for (const one of incidents) form.incident.append(make("option", { value: one.incident_id, text: one.title }));
    const asked = new URLSearchParams(location.search).get("incident");
    if (asked) { form.kind.value = "incident"; form.incident.value = asked; }
    id("incidentfield").hidden = form.kind.value !== "incident";
    document.body.dataset.busy = "false";
  } catch (error) {
    trouble(error);
  }
}

id("choice").addEventListener("submit", (event) => { event.preventDefault(); start(); });
id("choice").kind.addEventListener("change", () => { id("incidentfield").hidden = id("choice").kind.value !== "incident"; });
id("say").addEventListener("submit", (event) => event.preventDefault());
id("unsure").addEventListener("click", () => send(null));
id("skip").addEventListener("click", () => open(place + 1));
id("reveal").addEventListener("click", reveal);
const digit = (event) => {
  const chosen = shown && choices().find((one) => one.key === event.key);
  if (chosen) send(chosen.value);
};
keys({
  ...Object.fromEntries([..."0123456789"].map((one) => [one, digit])),
  x: () => send(null), s: () => { if (!id("say").hidden) open(place + 1); }, b: () => open(place - 1), e: reveal, n: () => id("note").focus(),
});
prepare();
