import { id, make, words, number, count, moment, alerts, ask, trouble, row, keys, front } from "./dom.js";
import { timeChart } from "./charts.js";

const key = location.pathname.split("/").at(-1);
const link = (one) => `/explore/verdict/${one.result_id}`;

function table(headings, lines) {
  return make("div", { className: "scroll", role: "region", "aria-label": headings.join(", "), tabindex: 0 }, make("table", {},
    make("thead", {}, make("tr", {}, ...headings.map((text, index) => make("th", { scope: "col", text, className: index ? "number" : "" })))),
    make("tbody", {}, ...lines.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row" }, ...words(first)), ...rest.map((text) => make("td", { className: "number", text })))))));
}

function examples(title, rows, one) {
  return make("section", {}, make("h3", { text: title }), make("ol", { className: "others" }, ...rows.map((line) => row(line, { [one.metric]: one.range }, link))));
}

function metric(one, found, charts) {
  const heading = make("h2", { text: one.metric });
  const causes = make("ul", { className: "causes" }, ...one.causes.map((cause) => {
    const line = make("li", {}, ...words(cause.text));
    if (cause.name) {
      const wanted = new URLSearchParams({ metric: one.metric, label: `${cause.name}=${cause.value}`, since: new Date(found.started).toISOString() });
      line.append(" ", make("a", { href: `/explore?${wanted}`, text: "these answers" }));
    }
    return line;
  }));
  if (!one.causes.length) causes.append(make("li", { text: "No label value explains it significantly." }));
  const chart = charts[one.metric];
  return make("section", {}, heading,
    make("p", {}, make("b", { text: `${number(one.before)} to ${number(one.after)}` }), `: ${one.change}, ${count(one.judged[0])} judged answers before and ${count(one.judged[1])} since`),
    causes,
    chart ? timeChart(chart.line, { ...chart.series, marks: [{ at: found.started, text: "since about here" }] }) : null,
    examples("Worst answers since", one.worst, one),
    one.unsupported.length ? make("section", {}, make("h3", { text: "Most often rejected since" }), table(["what the judge found missing or unsupported", "kind", "answers since", "answers before"], one.unsupported.map(([kind, text, now, was]) => [text, kind, count(now), count(was)]))) : null,
    Object.keys(one.corrections).length ? make("section", {}, make("h3", { text: "Corrected or suspected by code" }), table(["kind", "of the answers before", "since"], Object.entries(one.corrections).map(([kind, [was, now]]) => [kind.replaceAll("_", " "), `${Math.round(100 * was)}%`, `${Math.round(100 * now)}%`]))) : null,
    make("details", {}, make("summary", { text: `Ten answers before` }), examples("Latest answers before", one.examples_before, one)));
}

async function chartsOf(found) {
  // As much time before as since, so that the fall is in the middle, as far as there are answers.
  const [first, last] = found.extent;
  const end = Math.max(found.ended ?? last + 1, found.started + 1);
  const since = Math.max(found.started - Math.max(end - found.started, 60000), first);
  const wanted = new URLSearchParams({ since: new Date(since).toISOString(), until: new Date(end).toISOString() });
  const series = await ask(`/explore/api/series?${wanted}`).catch(() => ({ lines: [] }));
  return Object.fromEntries(series.lines.map((line) => [line.metric, { line, series }]));
}

function show(found, charts) {
  document.title = `${found.headline} - judgestream`;
  const copy = make("button", { type: "button", text: "Copy as Markdown" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(found.markdown);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Copying is not allowed; judgestream incident prints it";
    }
  });
  const ids = found.reports.flatMap((one) => one.worst.map((line) => line.result_id));
  sessionStorage.setItem("judgestream.list", JSON.stringify({ address: location.pathname, ids }));
  id("incident").replaceChildren(
    make("h2", { className: "title" }, ...words(found.headline)),
    make("p", { className: "about" }, make("span", { className: "quiet", text: `since about ${moment(found.started, 3600000)} UTC, ${found.ended === null ? "not over" : `over since ${moment(found.ended, 3600000)} UTC`}, ${alerts(found.alerts)}` }), copy),
    ...found.reports.map((one) => metric(one, found, charts)),
    make("details", {}, make("summary", { text: `Parts affected (${found.part_count})` }), make("ul", {}, ...found.parts.map((part) => make("li", {}, ...words(part))))));
}

async function load() {
  try {
    const found = await ask(`/explore/api/incident/${key}${location.search}`);
    // An alert links here by its id or as the latest: replace the URL by the incident's, so that it can be shared.
    history.replaceState(null, "", `/explore/incident/${found.incident_id}`);
    show(found, await chartsOf(found));
    trouble(null);
    document.body.dataset.busy = "false";
  } catch (error) {
    trouble(error);
  }
}

function move(by) {
  const links = [...document.querySelectorAll("a.row")].filter((one) => one.offsetParent);
  links[Math.min(Math.max(links.indexOf(document.activeElement) + by, 0), links.length - 1)]?.focus();
}

keys({ j: () => move(1), k: () => move(-1), u: () => { location.href = "/explore/incidents"; } });
front();
load();
