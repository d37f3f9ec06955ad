// Means over time as SVG, with a time axis, and a pointer that shows values and selects a time.
import { make, shape, number, count, moment } from "./dom.js";

const MINUTE = 60000;
const STEPS = [1 / 6, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160, 43200, 129600, 525600].map((one) => one * MINUTE);
const MOST_TICKS = 5;

// Round times within a period, in UTC.
export function ticks(since, until) {
  const step = STEPS.find((one) => (until - since) / one <= MOST_TICKS) ?? STEPS.at(-1);
  const found = [];
  for (let at = Math.ceil(since / step) * step; at <= until; at += step) found.push([at, clock(at, step)]);
  return found;
}

function clock(at, step) {
  const text = new Date(at).toISOString();
  if (step >= 1440 * MINUTE) return text.slice(0, 10);
  return at % (1440 * MINUTE) === 0 ? text.slice(5, 10) : text.slice(11, step < MINUTE ? 19 : 16);
}

// Points in a row; a period without answers is a gap in the line.
function runsOf(points, step) {
  const runs = [];
  for (const point of points) {
    if (point[1] === null) continue;
    if (runs.length && point[0] - runs.at(-1).at(-1)[0] <= step * 1.5) runs.at(-1).push(point);
    else runs.push([point]);
  }
  return runs;
}

function axis(since, until, x) {
  const all = ticks(since, until);
  return make("div", { className: "axis", "aria-hidden": "true" }, ...all.map(([at, text]) => {
    const made = make("span", { text });
    made.style.left = `${x(at)}%`;
    if (x(at) > 90) made.className = "last";
    if (x(at) < 10) made.className = "first";
    return made;
  }));
}

function marker(mark, x) {
  const drawn = shape("line", { class: mark.kind ?? "drop", x1: x(mark.at), x2: x(mark.at), y1: 0, y2: 100 });
  drawn.append(shape("title", {}, mark.text));
  return drawn;
}

// `points` of a line: time, mean, ends of its interval, number of answers (null: not known).
export function timeChart(line, { since, until, step, marks = [], choose = null, normal = null, note = "" }) {
  const [lowest, highest] = line.range;
  const span = Math.max(until - since, 1);
  const x = (at) => (Math.min(Math.max(at - since, 0), span) / span) * 100;
  const y = (value) => 100 - ((value - lowest) / Math.max(highest - lowest, 1)) * 100;
  const known = line.points.filter((point) => point[1] !== null);
  const last = known.at(-1);
  const shown = marks.filter((mark) => mark.at >= since && mark.at <= until);
  const svg = shape("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", `${line.metric}: ${known.length} points from ${moment(since)} to ${moment(until)}, last mean ${last ? number(last[1]) : "unknown"}${shown.map((mark) => `; ${moment(mark.at)} ${mark.text}`).join("")}`);
  const rules = Math.min(highest - lowest, 10);
  for (let index = 0; index <= rules; index += 1) {
    const at = y(lowest + ((highest - lowest) * index) / rules);
    svg.append(shape("line", { class: "rule", x1: 0, x2: 100, y1: at, y2: at }));
  }
  for (const [at] of ticks(since, until)) svg.append(shape("line", { class: "rule", x1: x(at), x2: x(at), y1: 0, y2: 100 }));
  if (normal !== null) svg.append(shape("line", { class: "normal", x1: 0, x2: 100, y1: y(normal), y2: y(normal) }));
  for (const run of runsOf(line.points, step)) {
    const wide = run.length === 1 ? [[x(run[0][0]), run[0]], [x(run[0][0] + step), run[0]]] : run.map((point) => [x(point[0] + step / 2), point]);
    svg.append(
      shape("polygon", { class: "band", points: [...wide.map(([at, point]) => `${at},${y(point[3])}`), ...wide.map(([at, point]) => `${at},${y(point[2])}`).reverse()].join(" ") }),
      shape("polyline", { class: "mean", points: wide.map(([at, point]) => `${at},${y(point[1])}`).join(" ") }),
    );
  }
  svg.append(...shown.map((mark) => marker(mark, x)));
  const cursor = shape("line", { class: "cursor", y1: 0, y2: 100, visibility: "hidden" });
  const chosen = shape("rect", { class: "chosen", y: 0, height: 100, visibility: "hidden" });
  svg.append(chosen, cursor);
  const now = make("p", { className: "now" });
  const say = (point, mark) => now.replaceChildren(make("b", { text: number(point?.[1]) }),
    point ? `${moment(point[0], step)}: ${number(point[2])} to ${number(point[3])}${point[4] === null ? "" : `, ${count(point[4])} judged`}${mark ? `; ${mark.text}` : ""}` : "nothing judged");
  say(last);
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return since + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * span;
  };
  let start = null;
  const look = (event) => {
    const here = at(event);
    const far = (point) => Math.abs(point[0] + step / 2 - here);
    const near = known.reduce((best, point) => (!best || far(point) < far(best) ? point : best), null);
    if (near) {
      say(near, shown.find((mark) => Math.abs(mark.at - here) < span / 50));
      for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(near[0] + step / 2));
      cursor.setAttribute("visibility", "visible");
    }
    if (start !== null) {
      chosen.setAttribute("x", x(Math.min(start, here)));
      chosen.setAttribute("width", Math.abs(x(here) - x(start)));
      chosen.setAttribute("visibility", "visible");
    }
  };
  svg.addEventListener("pointermove", look);
  svg.addEventListener("pointerdown", (event) => {
    look(event);
    if (choose) { start = at(event); svg.setPointerCapture(event.pointerId); }
  });
  svg.addEventListener("pointerleave", (event) => {
    // A finger leaves with each touch: what it chose stays.
    if (event.pointerType === "touch") return;
    cursor.setAttribute("visibility", "hidden");
    say(last);
  });
  svg.addEventListener("pointercancel", () => { start = null; chosen.setAttribute("visibility", "hidden"); });
  svg.addEventListener("pointerup", (event) => {
    const end = at(event);
    const from = start;
    start = null;
    chosen.setAttribute("visibility", "hidden");
    if (choose && from !== null && Math.abs(end - from) > span / 50) choose(Math.min(from, end), Math.max(from, end));
  });
  const ends = make("div", { className: "ends" }, make("span", { text: String(highest) }), make("span", { text: String(lowest) }));
  const signs = shown.filter((mark) => mark.kind === "change");
  return make("div", { className: "card" },
    make("h3", { text: line.metric }), make("p", { className: "quiet small", text: `judged by ${line.model}${note}` }), now,
    make("div", { className: "plot" }, ends, svg, axis(since, until, x)),
    signs.length ? make("p", { className: "quiet small", text: `Dotted: ${signs.slice(0, 5).map((mark) => mark.text).join(", ")}${signs.length > 5 ? ` and ${signs.length - 5} more` : ""}` }) : null);
}

// Whole scores separately; wide or non-integer scales in tenths.
function steps(one) {
  const [lowest, highest] = one.range;
  const given = Object.keys(one.weights).map(Number);
  if (highest - lowest < 12 && [lowest, ...given].every(Number.isInteger)) {
    return Array.from({ length: highest - lowest + 1 }, (_, place) => [String(highest - place), [highest - place]]);
  }
  const tenth = (highest - lowest) / 10;
  const place = (score) => Math.min(9, Math.max(0, Math.floor((score - lowest) / tenth + 1e-9)));
  return Array.from({ length: 10 }, (_, down) => [`${Number((lowest + tenth * (9 - down)).toPrecision(6))}+`,
    given.filter((score) => place(score) === 9 - down)]);
}

export function bars(metric, one) {
  const all = Object.values(one.weights).reduce((sum, value) => sum + value, 0);
  const box = make("div", { className: "bars" });
  // The worker's page counts labels and numbers under names of its own.
  const named = Object.keys(one.weights).some((name) => Number.isNaN(Number(name)));
  const rows = named ? Object.keys(one.weights).map((name) => [name, [name]]) : steps(one);
  for (const [name, scores] of rows) {
    const sum = (amounts) => scores.reduce((added, score) => added + (amounts[score] ?? 0), 0);
    const share = all ? sum(one.weights) / all : 0;
    box.append(make("span", { text: name }),
      make("progress", { max: 1, value: share, "aria-label": `${metric}: share of score ${name}` }),
      make("span", { text: `${(100 * share).toFixed(0)}% (${count(sum(one.scores))})` }));
  }
  const statuses = Object.entries(one.statuses).map(([name, value]) => `${count(value)} ${name}`).join(", ");
  return make("div", { className: "card" }, make("h3", { text: metric }), box,
    make("p", { className: "hint", text: one.weights === one.scores ? statuses : `${statuses}; shares are weighted by 1 / probability` }));
}
