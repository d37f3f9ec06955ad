// Texts of events and judges are inserted as text nodes: judged text may be hostile and must not become markup.
export const SVG = "http://www.w3.org/2000/svg";
export const id = (name) => document.getElementById(name);

export function make(name, options = {}, ...children) {
  const { text, className, ...attributes } = options;
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

export function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Characters that reorder or hide other text are shown by their number.
const TRICKS = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200b\ufeff])/;
export function words(text) {
  return String(text).split(TRICKS).map((part, index) => (index % 2
    ? make("span", { className: "trick", text: `U+${part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` })
    : part));
}

export const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
export const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
export const dollars = (value) => (value === null || value === undefined ? "no price known" : `$${value < 0.01 && value > 0 ? value.toPrecision(2) : value.toFixed(value < 1 ? 4 : 2)}`);

export const alerts = (many) => (many === 1 ? "1 alert" : `${count(many)} alerts`);
export function moment(milliseconds, step = 0) {
  const text = new Date(milliseconds).toISOString();
  return step >= 86400000 ? text.slice(0, 10) : `${text.slice(0, 10)} ${text.slice(11, step >= 3600000 ? 16 : 19)}`;
}

export async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(15000) });
  const found = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error ?? `the server answered ${answer.status}`);
  return found;
}

export function trouble(error) {
  const place = id("trouble");
  place.hidden = !error;
  place.textContent = error ? `Not shown: ${error.message}` : "";
}

// A label, true or false; a number to two decimals.
export function said(row) {
  const value = row.value ?? row.score;
  return typeof value === "number" ? String(Math.round(value * 100) / 100) : String(value);
}

export function badge(row, range) {
  if (row.status !== "scored") return make("span", { className: "badge none", text: row.status });
  const low = range ? (row.score - range[0]) / Math.max(range[1] - range[0], 1) : 1;
  const level = low <= 0.34 ? "bad" : low >= 0.67 ? "good" : "fair";
  return make("span", { className: `badge ${level}`, text: said(row), title: `score ${row.score}` });
}

export function row(one, ranges, link) {
  const made = make("li");
  const head = make("a", { href: link(one), className: "row" },
    badge(one, ranges[one.metric]),
    make("span", { className: "name" }, ...words(one.event_id)),
    make("span", { className: "quiet", text: one.metric }),
    make("span", { className: "quiet when", text: moment(one.at) }));
  const about = make("div", { className: "about" });
  for (const [name, value] of Object.entries(one.labels)) about.append(make("span", { className: "chip" }, ...words(`${name}=${value}`)));
  if (one.corrected) about.append(make("span", { className: "chip warn", text: `corrected ${one.corrected}×` }));
  if (one.suspected) about.append(make("span", { className: "chip warn", text: `suspected ${one.suspected}×` }));
  made.append(head, make("p", { className: "reason" }, ...words(one.reason)), about);
  return made;
}

export function keys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (typing && event.key === "Escape") document.activeElement.blur();
    if (typing || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key](event);
  });
}

export async function front() {
  // `judgestream explore` has no worker and no overview.
  const answer = await fetch("/status.json", { method: "HEAD" }).catch(() => null);
  if (!answer?.ok) for (const one of document.querySelectorAll("a.front")) one.remove();
}
