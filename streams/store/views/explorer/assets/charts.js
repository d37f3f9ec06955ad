// Means over time, drawn as SVG, with a pointer that reads values and chooses a time.
import { make, shape, number, count, moment } from "./dom.js";

export function timeChart(line, { since, until, step, marks = [], choose = null }) {
  const [lowest, highest] = line.range;
  const span = Math.max(until - since, 1);
  const x = (at) => ((at - since) / span) * 100;
  const y = (value) => 100 - ((value - lowest) / Math.max(highest - lowest, 1)) * 100;
  const known = line.points.filter((point) => point[1] !== null);
  const last = known.at(-1);
  const svg = shape("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", `${line.metric}: ${known.length} points from ${moment(since)} to ${moment(until)}, last mean ${last ? number(last[1]) : "unknown"}`);
  const rules = Math.min(highest - lowest, 10);
  for (let index = 0; index <= rules; index += 1) {
    const at = y(lowest + ((highest - lowest) * index) / rules);
    svg.append(shape("line", { class: "rule", x1: 0, x2: 100, y1: at, y2: at }));
  }
  // A stretch without answers is a gap, not a line across it.
  const runs = [];
  for (const point of known) {
    if (runs.length && point[0] - runs.at(-1).at(-1)[0] <= step * 1.5) runs.at(-1).push(point);
    else runs.push([point]);
  }
  for (const run of runs) {
    const middle = (point) => x(Math.min(Math.max(point[0] + step / 2, since), until));
    const wide = run.length === 1 ? [[x(Math.max(run[0][0], since)), run[0]], [x(Math.min(run[0][0] + step, until)), run[0]]] : run.map((point) => [middle(point), point]);
    svg.append(
      shape("polygon", { class: "band", points: [...wide.map(([at, point]) => `${at},${y(point[3])}`), ...wide.map(([at, point]) => `${at},${y(point[2])}`).reverse()].join(" ") }),
      shape("polyline", { class: "mean", points: wide.map(([at, point]) => `${at},${y(point[1])}`).join(" ") }),
    );
  }
  for (const mark of marks) {
    if (mark.at < since || mark.at > until) continue;
    const drawn = shape("line", { class: "drop", x1: x(mark.at), x2: x(mark.at), y1: 0, y2: 100 });
    drawn.append(shape("title", {}, mark.text));
    svg.append(drawn);
  }
  const cursor = shape("line", { class: "cursor", y1: 0, y2: 100, visibility: "hidden" });
  const chosen = shape("rect", { class: "chosen", y: 0, height: 100, visibility: "hidden" });
  svg.append(chosen, cursor);
  const now = make("p", { className: "now" });
  const say = (point) => now.replaceChildren(make("b", { text: number(point?.[1]) }),
    point ? `${moment(point[0], step)}: ${number(point[2])} to ${number(point[3])}, ${count(point[4])} judged` : "nothing judged");
  say(last);
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return since + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * span;
  };
  let start = null;
  svg.addEventListener("pointermove", (event) => {
    const here = at(event);
    const near = known.reduce((best, point) => (!best || Math.abs(point[0] + step / 2 - here) < Math.abs(best[0] + step / 2 - here) ? point : best), null);
    if (near) {
      say(near);
      const place = x(Math.min(Math.max(near[0] + step / 2, since), until));
      for (const end of ["x1", "x2"]) cursor.setAttribute(end, place);
      cursor.setAttribute("visibility", "visible");
    }
    if (start !== null) {
      chosen.setAttribute("x", x(Math.min(start, here)));
      chosen.setAttribute("width", Math.abs(x(here) - x(start)));
      chosen.setAttribute("visibility", "visible");
    }
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); say(last); });
  if (choose) {
    svg.addEventListener("pointerdown", (event) => { start = at(event); svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointerup", (event) => {
      const end = at(event);
      const from = start;
      start = null;
      chosen.setAttribute("visibility", "hidden");
      if (from !== null && Math.abs(end - from) > span / 50) choose(Math.min(from, end), Math.max(from, end));
    });
  }
  const ends = make("div", { className: "ends" }, make("span", { text: String(highest) }), make("span", { text: String(lowest) }));
  const axis = make("div", { className: "span" }, make("span", { text: moment(since, step) }), make("span", { text: moment(until, step) }));
  return make("div", { className: "card" },
    make("h3", { text: line.metric }), make("p", { className: "quiet small", text: `judged by ${line.model}` }), now,
    make("div", { className: "plot" }, ends, svg, axis));
}

// Whole scores one by one; a wide scale, or one with numbers between the whole ones, in tenths.
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
  for (const [name, scores] of steps(one)) {
    const sum = (amounts) => scores.reduce((added, score) => added + (amounts[score] ?? 0), 0);
    const share = all ? sum(one.weights) / all : 0;
    box.append(make("span", { text: name }),
      make("progress", { max: 1, value: share, "aria-label": `${metric}: share of score ${name}` }),
      make("span", { text: `${(100 * share).toFixed(0)}% (${count(sum(one.scores))})` }));
  }
  const statuses = Object.entries(one.statuses).map(([name, value]) => `${count(value)} ${name}`).join(", ");
  return make("div", { className: "card" }, make("h3", { text: metric }), box,
    make("p", { className: "hint", text: `${statuses}; shares are weighted by 1 / probability` }));
}
