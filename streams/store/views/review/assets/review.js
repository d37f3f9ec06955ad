import { id, make, words, count, ask, trouble, keys, badge } from "/explore/dom.js";
import { texts } from "/explore/evidence.js";

let queue = { tasks: [] };
let place = 0;
let shown = null;
let revealed = false;
let sending = false;
let given = 0;

function bare(found) {
  // Without the judge's marks: who sees a score first says it again.
  if (!found.texts) return found;
  const plain = (pieces) => (pieces === null ? null : pieces.map(([text]) => [text, []]));
  return { ...found, items: [], organization: null, texts: { ...found.texts, answer: plain(found.texts.answer), reference: plain(found.texts.reference),
    pages: found.texts.pages.map((page) => ({ ...page, pieces: plain(page.pieces) })) } };
}

function show() {
  const [low, high] = shown.range;
  id("answer").replaceChildren(
    make("h2", { className: "title" }, revealed ? badge(shown, shown.range) : null, make("span", { text: `${shown.metric} ` }), make("span", { className: "name" }, ...words(shown.event_id))),
    revealed ? make("p", { className: "reason" }, ...words(shown.reason)) : null,
    ...texts(revealed ? shown : bare(shown)));
  const buttons = [];
  for (let score = low; score <= high && high - low < 12; score += 1) {
    const button = make("button", { type: "button", text: String(score), "aria-label": `Score ${score}` });
    button.addEventListener("click", () => send(score));
    buttons.push(button);
  }
  id("scores").replaceChildren(...buttons);
  id("reveal").setAttribute("aria-pressed", String(revealed));
  id("say").hidden = false;
  id("progress").textContent = `${place + 1} of ${queue.tasks.length}, ${given} given${queue.tasks[place].labelled ? "; you have labelled this one before" : ""}`;
}

async function open(number) {
  if (number < 0) return;
  place = number;
  revealed = false;
  id("note").value = "";
  if (place >= queue.tasks.length) {
    id("say").hidden = true;
    id("answer").replaceChildren(make("p", { text: queue.tasks.length ? "That was the last one. Thank you." : "No verdict fits." }));
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
    id("who").textContent = `labels are given by ${queue.who}`;
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
  const score = Number(event.key);
  if (shown && score >= shown.range[0] && score <= shown.range[1]) send(score);
};
keys({
  ...Object.fromEntries([..."0123456789"].map((one) => [one, digit])),
  x: () => send(null), s: () => { if (!id("say").hidden) open(place + 1); }, b: () => open(place - 1), e: reveal, n: () => id("note").focus(),
});
prepare();
