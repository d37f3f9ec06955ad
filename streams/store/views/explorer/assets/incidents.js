import { id, make, words, moment, alerts, ask, trouble, keys, front } from "./dom.js";

function line(one) {
  const state = one.ended === null
    ? make("span", { className: "badge bad", text: "open" })
    : make("span", { className: "badge good", text: "over" });
  return make("li", {},
    make("a", { className: "row", href: `/explore/incident/${one.incident_id}` }, state, make("span", { className: "name" }, ...words(one.title)),
      make("span", { className: "quiet when", text: `since about ${moment(one.started, 3600000)} UTC` })),
    make("p", { className: "quiet" }, `${alerts(one.alerts)}${one.ended === null ? "" : `, over since ${moment(one.ended, 3600000)} UTC`}`));
}

async function load() {
  try {
    const { incidents } = await ask("/explore/api/incidents");
    id("rows").replaceChildren(...(incidents.length ? incidents.map(line) : [make("li", { className: "hint", text: "No drop was called in the time that the store knows." })]));
    document.body.dataset.busy = "false";
  } catch (error) {
    trouble(error);
  }
}

function move(by) {
  const links = [...document.querySelectorAll("#rows a.row")];
  links[Math.min(Math.max(links.indexOf(document.activeElement) + by, 0), links.length - 1)]?.focus();
}

keys({ j: () => move(1), k: () => move(-1) });
front();
load();
