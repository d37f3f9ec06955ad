import { id, make, words, number, count, ask, row, table, columns, incidentCard } from "/assets/dom.js";
import { timeChart, bars } from "/assets/charts.js";

const EVERY_MILLISECONDS = 2000;
const STALE_MILLISECONDS = 10000;
const INCIDENTS_MILLISECONDS = 10000;
const SHOWN_INCIDENTS = 3;
const DAY = 86400000;
const narrow = matchMedia("(max-width: 50rem)");
let received = null;
let told = { at: 0, incidents: null, changes: [] };
let drawn = "";

const total = (counts) => Object.values(counts).reduce((sum, one) => sum + one, 0);
const traffic = (labels) => Object.entries(labels).map(([name, value]) => `${name}=${value}`).join(" ") || "all";

function breakable(name) {
  // Long names may break after a dot or an underscore, and nowhere else.
  const made = make("dt");
  name.split(/(?<=[._])/).forEach((part, index) => made.append(...(index ? [make("wbr")] : []), part));
  return made;
}

function say(place, text) {
  // Only what changed is announced to those who listen.
  if (place.textContent !== text) place.textContent = text;
}

function duration(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

function charts(status) {
  const { history } = status;
  const times = history.at.map((one) => one * 1000);
  const [since, until] = [times[0] ?? 0, times.at(-1) ?? 1];
  const marks = [
    ...(told.incidents ?? status.incidents).map((one) => ({ at: one.started, text: one.title })),
    ...told.changes.map((one) => ({ ...one, kind: "change" })),
  ];
  const whole = status.series.filter((one) => !Object.keys(one.labels).length);
  const made = whole.map((one) => {
    const points = (history.lines[one.line] ?? []).map((point, index) => (point ? [times[index], ...point, null] : [times[index], null]));
    const line = { metric: one.metric, model: one.model, range: status.ranges[one.metric] ?? [0, 5], points };
    return timeChart(line, { since, until: Math.max(until, since + 1000), step: history.step * 1000, marks, normal: one.baseline, note: `, ${one.state}` });
  });
  // A chart under the pointer is not replaced.
  if (!id("charts").matches(":hover") || !id("charts").children.length) {
    id("charts").replaceChildren(...(made.length ? made : [make("p", { className: "hint", text: "no data yet" })]));
  }
}

function scores(status) {
  const made = Object.entries(status.scores).map(([metric, counts]) => bars(metric, { range: status.ranges[metric] ?? [0, 5], weights: counts, scores: counts, statuses: status.results[metric] ?? {} }));
  id("scores").replaceChildren(...(made.length ? made : [make("p", { className: "hint", text: "no data yet" })]));
}

function rate(history, name) {
  const values = history.events[name] ?? [];
  const last = values.length - 1;
  const from = Math.max(last - 10, 0);
  const seconds = history.at[last] - history.at[from];
  return seconds > 0 ? (values[last] - values[from]) / seconds : null;
}

function spent(budget) {
  const end = budget.left_seconds === null ? "lasts today" : `spent by ${new Date(Date.now() + 1000 * budget.left_seconds).toISOString().slice(11, 16)} UTC at this rate`;
  return `${number(100 * budget.spent, 1)}% spent${budget.spent < 1 ? `, ${end}` : ""}`;
}

function flow(status) {
  const facts = [
    ["events read", count(total(status.events))],
    ...Object.entries(status.events).map(([name, value]) => [`${name} (a second)`, `${count(value)} (${number(rate(status.history, name), 1)})`]),
    ["records in flight", count(status.unfinished)],
    ...(status.judge.budget ?? []).map((one) => [one.cap === "all" ? "budget of today" : `budget of ${one.cap}`, spent(one)]),
    ...Object.entries(status.judge.rates ?? {}).map(([stratum, share]) => [`sampling rate: ${stratum}`, `${number(100 * share, 2)}%`]),
    ...Object.entries(status.lag_records).map(([topic, lag]) => [`lag of ${topic}`, count(lag)]),
    ...Object.entries(status.dead_letters).map(([reason, value]) => [`dead letters: ${reason}`, count(value)]),
    ...Object.entries(status.corrections).map(([kind, value]) => [`corrected: ${kind}`, count(value)]),
    ...Object.entries(status.suspicions).map(([kind, value]) => [`suspected: ${kind}`, count(value)]),
  ];
  id("flow").replaceChildren(...facts.map(([name, value]) => make("div", {}, breakable(name), make("dd", { text: value }))));
}

function incidents(status) {
  // The store knows causes, and the incidents from before this worker's start.
  const known = told.incidents ?? status.incidents;
  const recent = known.filter((one) => one.ended === null || Date.now() - one.ended < DAY).slice(0, SHOWN_INCIDENTS);
  const none = status.agents.includes("monitor") ? "no drop since the start" : "no monitor runs in this worker";
  const written = JSON.stringify([recent, status.alerts]);
  if (written === drawn) return;
  drawn = written;
  id("incidents").replaceChildren(...(recent.length ? recent.map((one) => incidentCard(one, status.explorer ? `/explore/incident/${one.incident_id}` : null)) : [make("p", { text: none })]));
  id("alertsbox").hidden = !status.alerts.length;
  const texts = status.alerts.map((one) => `${one.raised_at.slice(11, 19)} UTC: ${one.kind === "drop" ? "DROP" : "RECOVERED"} ${one.summary}`);
  if (status.alerts_left_out) texts.push(`and ${status.alerts_left_out} more of late, all on the alerts topic`);
  id("alerts").replaceChildren(...texts.map((text) => make("li", {}, ...words(text))));
}

// What a reader can expect: how long a drop of 0.44 points of five would take.
function patience(one, ranges) {
  if (one.expected_answers === null) return one.state === "watching" ? ", not for small drops" : "";
  const [lowest, highest] = ranges[one.metric];
  const days = one.expected_days === null || one.expected_days < 0.05 ? "" : `, ${number(one.expected_days, 1)} days`;
  return `: a drop of ${number(0.088 * (highest - lowest), 2)} takes about ${count(Math.round(one.expected_answers))} answers${days}`;
}

function means(status) {
  const gap = (one) => (one.recent === null || one.baseline === null ? 0 : one.baseline - one.recent);
  const ordered = [...status.series].sort((a, b) => gap(b) - gap(a)).slice(0, narrow.matches ? 8 : 30);
  const headings = columns("Traffic", "Metric", "#Latest 50", "#95% interval of these", "#Last hour", "#Normal", "#Scored", "#No score", "State");
  id("means").replaceChildren(table("Means by traffic", headings, ordered.map((one) => [
    make("span", { className: "name" }, ...words(traffic(one.labels))),
    one.metric,
    number(one.recent),
    one.recent === null ? "–" : `${number(one.recent_low)} to ${number(one.recent_high)}`,
    number(one.mean),
    number(one.baseline),
    count(one.scored),
    count(one.unscored + one.failed),
    make("span", { className: one.state === "dropped" ? "dropped" : "", text: one.state + patience(one, status.ranges) }),
  ])));
}

function judges(status) {
  const headings = columns("Endpoint", "Model", "#Calls", "#Failed", "#Mean s", "#95% below s", "#Tokens in", "#Cached", "#Tokens out", "#Cost $");
  id("judges").replaceChildren(table("Judge", headings, status.judges.map((one) => [
    one.endpoint,
    make("span", { className: "name" }, ...words(one.model)),
    count(one.calls),
    count(one.failed),
    number(one.mean_seconds, 3),
    one.p95_below_seconds === null ? "–" : String(one.p95_below_seconds),
    count(one.tokens.input),
    count(one.tokens.cached),
    count(one.tokens.output),
    number(one.cost_usd, 4),
  ])));
}

function verdicts(status) {
  id("texts").hidden = status.explorer || !status.verdicts.length;
  const link = (one) => (status.explorer ? `/explore/verdict/${one.result_id}` : null);
  id("rows").replaceChildren(...(status.verdicts.length ? status.verdicts.slice(0, narrow.matches ? 8 : 20).map((one) => row(one, status.ranges, link)) : [make("li", { className: "hint", text: "no data yet" })]));
}

function show(status) {
  const state = id("state");
  state.dataset.ok = String(status.ready);
  say(state, [
    status.ready ? `ready, group ${status.group_id}` : status.reasons.join("; "),
    ...status.notes,
  ].join("; "));
  const cause = status.judge?.trouble ?? status.judge?.deferred;
  id("trouble").hidden = !cause;
  say(id("trouble"), cause ? `No verdicts at present: ${cause}.${status.judge.trouble ? " Check base_url, key and model of judge.endpoints; judgestream doctor tries each of them." : ""} Answers wait on the topics; none is lost.` : "");
  id("pages").hidden = !status.explorer;
  for (const part of [incidents, charts, verdicts, means, scores, judges, flow]) part(status);
}

function age() {
  const since = received === null ? null : Date.now() - received;
  const stale = since !== null && since > STALE_MILLISECONDS;
  document.body.dataset.stale = String(stale);
  if (since !== null) say(id("age"), stale ? `out of date: as of ${duration(since / 1000)} ago` : "up to date");
}

async function refresh() {
  try {
    const status = await ask("/status.json");
    if (status.explorer && Date.now() - told.at > INCIDENTS_MILLISECONDS) {
      const since = new Date((status.history.at[0] ?? 0) * 1000).toISOString();
      const [found, series] = await Promise.all([
        ask("/explore/api/incidents").catch(() => ({ incidents: null })),
        ask(`/explore/api/labels?since=${since}`).catch(() => ({ changes: [] })),
      ]);
      told = { at: Date.now(), incidents: found.incidents, changes: series.changes };
    }
    show(status);
    received = Date.now();
  } catch {
    const state = id("state");
    state.dataset.ok = "false";
    say(state, "the worker does not answer");
  }
  age();
  setTimeout(refresh, EVERY_MILLISECONDS);
}

setInterval(age, 1000);
refresh();
