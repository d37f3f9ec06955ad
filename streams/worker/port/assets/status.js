// Everything from events goes in as text nodes: judged text is hostile, and never becomes markup.
const SVG = "http://www.w3.org/2000/svg";
const EVERY_MILLISECONDS = 2000;
const STALE_MILLISECONDS = 10000;
let received = null;

const id = (name) => document.getElementById(name);
const number = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const total = (counts) => Object.values(counts).reduce((sum, one) => sum + one, 0);
const traffic = (labels) => Object.entries(labels).map(([name, value]) => `${name}=${value}`).join(" ") || "all";

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function breakable(name) {
  // Long names may break after a dot or an underscore, and nowhere else.
  const made = element("dt");
  name.split(/(?<=[._])/).forEach((part, index) => made.append(...(index ? [element("wbr")] : []), part));
  return made;
}

function say(place, text) {
  // Only what changed is announced to those who listen.
  if (place.textContent !== text) place.textContent = text;
}

function fill(place, rows, columns) {
  const lines = rows.map(([head, ...cells]) => {
    const line = element("tr");
    const first = element("th", head, "name");
    first.scope = "row";
    first.title = head;
    line.append(first, ...cells.map(([text, className]) => {
      const cell = element("td", text, className);
      if (className === "name") cell.title = text;
      return cell;
    }));
    return line;
  });
  if (!lines.length) {
    const empty = element("td", "no data yet");
    empty.colSpan = columns;
    lines.push(element("tr"));
    lines[0].append(empty);
  }
  id(place).replaceChildren(...lines);
}

function duration(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

function plot(one, history, [lowest, highest]) {
  const points = history.lines[one.line] ?? [];
  const first = history.at[0];
  const span = Math.max(history.at[history.at.length - 1] - first, 1);
  const x = (index) => ((history.at[index] - first) / span) * 100;
  const y = (value) => 100 - ((value - lowest) / (highest - lowest)) * 100;
  const svg = shape("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", `${one.metric}: mean ${number(one.recent, 2)}, over the last ${duration(span)}`);
  for (let value = lowest; value <= highest; value += 1) {
    svg.append(shape("line", { class: "rule", x1: 0, x2: 100, y1: y(value), y2: y(value) }));
  }
  if (one.baseline !== null) {
    svg.append(shape("line", { class: "normal", x1: 0, x2: 100, y1: y(one.baseline), y2: y(one.baseline) }));
  }
  const known = points.map((point, index) => [point, index]).filter(([point]) => point !== null);
  if (known.length) {
    const upper = known.map(([point, index]) => `${x(index)},${y(point[2])}`);
    const lower = known.map(([point, index]) => `${x(index)},${y(point[1])}`).reverse();
    svg.append(
      shape("polygon", { class: "band", points: [...upper, ...lower].join(" ") }),
      shape("polyline", { class: "mean", points: known.map(([point, index]) => `${x(index)},${y(point[0])}`).join(" ") }),
    );
  }
  const ends = element("div", undefined, "ends");
  ends.append(element("span", String(highest)), element("span", String(lowest)));
  const axis = element("div", undefined, "span");
  axis.append(element("span", `${duration(span)} ago`), element("span", "now"));
  const made = element("div", undefined, "plot");
  made.append(ends, svg, axis);
  return made;
}

function card(title, ...parts) {
  const made = element("div", undefined, "card");
  made.append(element("h3", title), ...parts);
  return made;
}

function charts(status) {
  const whole = status.series.filter((one) => !Object.keys(one.labels).length);
  const made = whole.map((one) => {
    const now = element("p");
    now.append(element("b", number(one.recent, 2)), `judged by ${one.model}, ${one.state}`);
    if (one.state === "dropped") now.className = "dropped";
    return card(one.metric, now, plot(one, status.history, status.ranges[one.metric] ?? [0, 5]));
  });
  id("charts").replaceChildren(...(made.length ? made : [element("p", "no data yet", "hint")]));
}

// The scores of a scale of whole numbers, all of them; labels, and tenths of other scales, as far as they were given.
function steps(counts, lowest, highest) {
  const given = Object.keys(counts);
  if (Number.isInteger(lowest) && given.every((one) => /^-?\d+$/.test(one))) {
    return Array.from({ length: highest - lowest + 1 }, (_, place) => String(highest - place));
  }
  return given.sort((one, other) => Number(other) - Number(one) || counts[other] - counts[one]);
}

function scores(status) {
  const made = Object.entries(status.scores).map(([metric, counts]) => {
    const [lowest, highest] = status.ranges[metric] ?? [0, 5];
    const all = total(counts);
    const bars = element("div", undefined, "bars");
    for (const score of steps(counts, lowest, highest)) {
      const value = counts[score] ?? 0;
      const bar = element("progress");
      bar.max = all || 1;
      bar.value = value;
      bar.setAttribute("aria-label", `score ${score}`);
      bars.append(element("span", score), bar, element("span", `${count(value)} (${Math.round((100 * value) / (all || 1))}%)`));
    }
    const statuses = Object.entries(status.results[metric] ?? {}).map(([name, value]) => `${count(value)} ${name}`);
    return card(metric, bars, element("p", statuses.join(", "), "hint"));
  });
  id("scores").replaceChildren(...(made.length ? made : [element("p", "no data yet", "hint")]));
}

function rate(history, name) {
  const values = history.events[name] ?? [];
  const last = values.length - 1;
  const from = Math.max(last - 10, 0);
  const seconds = history.at[last] - history.at[from];
  return seconds > 0 ? (values[last] - values[from]) / seconds : null;
}

function flow(status) {
  const facts = [
    ["events read", count(total(status.events))],
    ...Object.entries(status.events).map(([name, value]) => [`${name} (a second)`, `${count(value)} (${number(rate(status.history, name), 1)})`]),
    ["records in flight", count(status.unfinished)],
    ...Object.entries(status.lag_records).map(([topic, lag]) => [`lag of ${topic}`, count(lag)]),
    ...Object.entries(status.dead_letters).map(([reason, value]) => [`dead letters: ${reason}`, count(value)]),
    ...Object.entries(status.corrections).map(([kind, value]) => [`corrected: ${kind}`, count(value)]),
    ...Object.entries(status.suspicions).map(([kind, value]) => [`suspected: ${kind}`, count(value)]),
  ];
  id("flow").replaceChildren(...facts.map(([name, value]) => {
    const box = element("div");
    box.append(breakable(name), element("dd", value));
    return box;
  }));
}

function alerts(status) {
  const texts = status.alerts.map((one) => [`${one.raised_at.slice(11, 19)} UTC: ${one.kind === "drop" ? "DROP" : "RECOVERED"} ${one.summary}`, one.kind, one.alert_id]);
  if (status.alerts_left_out) texts.push([`and ${status.alerts_left_out} more of late, all on the alerts topic`, "", null]);
  if (!texts.length) texts.push([status.agents.includes("monitor") ? "no drop since the start" : "no monitor runs in this worker", "", null]);
  const place = id("alerts");
  if ([...place.children].map((one) => one.textContent).join("\n") === texts.map(([text]) => text).join("\n")) return;
  place.replaceChildren(...texts.map(([text, kind, key]) => {
    if (!status.explorer || key === null) return element("li", text, kind);
    const line = element("li", "", kind);
    const link = element("a", text);
    link.href = `/explore/incident/${key}`;
    line.append(link);
    return line;
  }));
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
  const ordered = [...status.series].sort((a, b) => gap(b) - gap(a)).slice(0, 30);
  fill("means", ordered.map((one) => [
    one.metric,
    [traffic(one.labels), "name"],
    [number(one.recent, 2), "number"],
    [one.recent === null ? "–" : `${number(one.recent_low, 2)} to ${number(one.recent_high, 2)}`, "number"],
    [number(one.mean, 2), "number"],
    [number(one.baseline, 2), "number"],
    [count(one.scored), "number"],
    [count(one.unscored + one.failed), "number"],
    [one.state + patience(one, status.ranges), one.state === "dropped" ? "dropped" : ""],
  ]), 9);
}

function explorer(status) {
  // Where the verdict store runs, each answer leads to its page.
  id("pages").hidden = !status.explorer;
  if (!status.explorer) return;
  for (const name of document.querySelectorAll("#verdicts td.name")) {
    const link = element("a", name.textContent);
    link.href = `/explore?${new URLSearchParams({ event: name.textContent, order: "newest" })}`;
    name.replaceChildren(link);
  }
}

function show(status) {
  const state = id("state");
  state.dataset.ok = String(status.ready);
  say(state, [
    status.ready ? `ready, group ${status.group_id}` : status.reasons.join("; "),
    ...status.notes,
  ].join("; "));
  alerts(status);
  charts(status);
  means(status);
  scores(status);
  flow(status);
  fill("judges", status.judges.map((one) => [
    one.endpoint,
    [one.model, "name"],
    [count(one.calls), "number"],
    [count(one.failed), "number"],
    [number(one.mean_seconds, 3), "number"],
    [one.p95_below_seconds === null ? "–" : String(one.p95_below_seconds), "number"],
    [count(one.tokens.input), "number"],
    [count(one.tokens.cached), "number"],
    [count(one.tokens.output), "number"],
    [number(one.cost_usd, 4), "number"],
  ]), 10);
  fill("verdicts", status.verdicts.map((one) => [
    one.metric,
    [one.score === null ? one.status : String(one.score), "number"],
    [one.event_id, "name"],
    [one.reason, "text"],
  ]), 4);
  explorer(status);
}

function age() {
  const since = received === null ? null : Date.now() - received;
  const stale = since !== null && since > STALE_MILLISECONDS;
  document.body.dataset.stale = String(stale);
  if (since !== null) say(id("age"), stale ? `out of date: as of ${duration(since / 1000)} ago` : "up to date");
}

async function refresh() {
  try {
    const answer = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(8000) });
    show(await answer.json());
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
