import { id, make, words, number, count, dollars, moment, ask, trouble, row, keys, front } from "./dom.js";
import { timeChart, bars } from "./charts.js";

const FIELDS = ["q", "metric", "since", "until", "min", "max", "status", "correction", "suspicion", "evaluator", "event"];
let choices = { ranges: {} };
let shown = [];
let turn = 0;

const query = () => new URLSearchParams(location.search);

function without(name, value) {
  const kept = new URLSearchParams();
  for (const [key, one] of query()) if (key !== name || (value !== undefined && one !== value)) kept.append(key, one);
  return kept;
}

function go(wanted, replace = false) {
  wanted.delete("skip");
  const address = wanted.size ? `/explore?${wanted}` : "/explore";
  history[replace ? "replaceState" : "pushState"](null, "", address);
  load();
}

function option(select, value, text) {
  select.append(make("option", { value, text: text ?? value }));
}

function fillChoices() {
  const form = id("filter");
  for (const one of choices.metrics) option(form.metric, one);
  for (const [name, list] of [["correction", choices.corrections], ["suspicion", choices.suspicions]]) {
    for (const one of list) option(form[name], one, one.replaceAll("_", " "));
  }
  for (const one of choices.evaluators) option(form.evaluator, one.fingerprint, `${one.model}, ${one.metric} ${one.fingerprint.slice(0, 8)}`);
  for (const [name, values] of Object.entries(choices.labels)) {
    const group = make("optgroup", { label: name });
    for (const value of values) option(group, `${name}=${value}`);
    form.label.append(group);
  }
}

function showFilter() {
  const form = id("filter");
  const wanted = query();
  for (const name of FIELDS) {
    const field = form.elements[name];
    if (!field) continue;
    const value = wanted.get(name) ?? "";
    if (field.tagName === "SELECT" && value && ![...field.options].some((one) => one.value === value)) option(field, value);
    field.value = value;
  }
  form.label.value = "";
  id("order").value = wanted.get("order") ?? "worst";
  if (["status", "correction", "suspicion", "evaluator", "event"].some((name) => wanted.get(name))) id("further").open = true;
  const chips = [...wanted].filter(([name, value]) => value && !["order", "skip"].includes(name)).map(([name, value]) => {
    const text = name === "label" ? value : /^\d{4}-/.test(value) ? `${name} ${value.slice(0, 19).replace("T", " ")}` : `${name}: ${value}`;
    const chip = make("button", { type: "button", className: "chip", title: "Remove this filter" }, ...words(text), " ×");
    chip.setAttribute("aria-label", `Remove the filter ${text}`);
    chip.addEventListener("click", () => go(without(name, value)));
    return make("li", {}, chip);
  });
  id("chips").replaceChildren(...chips);
}

function filterOf(form) {
  const wanted = new URLSearchParams();
  for (const value of query().getAll("label")) wanted.append("label", value);
  if (form.label.value && !wanted.getAll("label").includes(form.label.value)) wanted.append("label", form.label.value);
  for (const name of FIELDS) {
    const value = (form.elements[name]?.value ?? (name === "until" ? query().get("until") ?? "" : "")).trim();
    if (value) wanted.set(name, value);
  }
  if (form.since.value !== (query().get("since") ?? "")) wanted.delete("until");
  if (id("order").value !== "worst") wanted.set("order", id("order").value);
  return wanted;
}

const link = (one) => `/explore/verdict/${one.result_id}`;

function showRows(page, append) {
  const list = id("rows");
  if (!append) { shown = []; list.replaceChildren(); }
  shown.push(...page.rows);
  list.append(...page.rows.map((one) => row(one, choices.ranges, link)));
  if (!shown.length) list.append(make("li", { className: "hint", text: "No answer matches this filter." }));
  id("count").textContent = `${count(page.count)} ${page.count === 1 ? "answer" : "answers"}`;
  id("more").hidden = !page.more;
  sessionStorage.setItem("judgestream.list", JSON.stringify({ search: location.search, ids: shown.map((one) => one.result_id) }));
}

function showSeries(series, marks) {
  const made = series.lines.map((line) => timeChart(line, {
    ...series, marks,
    choose: (since, until) => {
      const wanted = query();
      wanted.set("since", new Date(since).toISOString());
      wanted.set("until", new Date(until).toISOString());
      go(wanted);
    },
  }));
  id("charts").replaceChildren(...(made.length ? made : [make("p", { className: "hint", text: "Nothing was scored in this time." })]));
}

function showLabels(rows) {
  const lines = rows.slice(0, 60).map(([metric, name, value, mean, low, high, judged]) => {
    const wanted = query();
    if (!wanted.getAll("label").includes(`${name}=${value}`)) wanted.append("label", `${name}=${value}`);
    wanted.set("metric", metric);
    return make("tr", {},
      make("th", { scope: "row" }, make("a", { href: `/explore?${wanted}` }, ...words(`${name}=${value}`))),
      make("td", { text: metric }),
      make("td", { className: "number", text: number(mean) }),
      make("td", { className: "number", text: mean === null ? "–" : `${number(low)} to ${number(high)}` }),
      make("td", { className: "number", text: count(judged) }));
  });
  id("labels").replaceChildren(...(lines.length ? lines : [make("tr", {}, make("td", { colspan: 5, text: "no labels" }))]));
}

function showCost(days) {
  const lines = days.slice(-31).reverse().map(([day, cost, judged]) => make("tr", {},
    make("th", { scope: "row", text: moment(day, 86400000) }),
    make("td", { className: "number", text: count(judged) }),
    make("td", { className: "number", text: dollars(cost) })));
  id("cost").replaceChildren(...(lines.length ? lines : [make("tr", {}, make("td", { colspan: 3, text: "nothing judged" }))]));
}

async function marksOf() {
  const found = await ask("/explore/api/incidents").catch(() => ({ incidents: [] }));
  return found.incidents.map((one) => ({ at: one.started, text: one.title }));
}

async function load() {
  turn += 1;
  const mine = turn;
  showFilter();
  document.body.dataset.busy = "true";
  const wanted = query().toString();
  const part = async (name, show) => {
    const found = await ask(`/explore/api/${name}?${wanted}`);
    if (mine === turn) show(found);
  };
  try {
    const marks = marksOf();
    await Promise.all([
      part("verdicts", (page) => showRows(page, false)),
      part("series", async (series) => showSeries(series, await marks)),
      part("scores", (scores) => id("scores").replaceChildren(...Object.entries(scores).map(([metric, one]) => bars(metric, one)))),
      part("labels", (labels) => showLabels(labels.rows)),
      part("cost", (cost) => showCost(cost.days)),
    ]);
    if (mine === turn) trouble(null);
  } catch (error) {
    if (mine === turn) trouble(error);
  }
  if (mine === turn) document.body.dataset.busy = "false";
}

async function more() {
  const wanted = query();
  wanted.set("skip", String(shown.length));
  try {
    showRows(await ask(`/explore/api/verdicts?${wanted}`), true);
  } catch (error) {
    trouble(error);
  }
}

function move(by) {
  const links = [...document.querySelectorAll("#rows a.row")];
  const at = links.indexOf(document.activeElement);
  links[Math.min(Math.max(at + by, 0), links.length - 1)]?.focus();
}

id("filter").addEventListener("submit", (event) => { event.preventDefault(); go(filterOf(id("filter"))); });
id("filter").addEventListener("change", (event) => { if (event.target.tagName === "SELECT" || event.target.type === "number") go(filterOf(id("filter"))); });
id("order").addEventListener("change", () => go(filterOf(id("filter"))));
id("alltime").addEventListener("click", () => { const wanted = query(); wanted.delete("since"); wanted.delete("until"); go(wanted); });
id("more").addEventListener("click", more);
window.addEventListener("popstate", load);
keys({ j: () => move(1), k: () => move(-1), "/": () => id("q").focus() });
front();
ask("/explore/api/choices").then((found) => { choices = found; fillChoices(); }).catch(trouble).finally(load);
