import { id, make, words, number, count, dollars, moment, ask, trouble, badge, row, keys, front } from "./dom.js";
import { texts } from "./evidence.js";

const key = location.pathname.split("/").at(-1);
const list = JSON.parse(sessionStorage.getItem("judgestream.list") ?? "null");

function fact(name, ...value) {
  return value.every((one) => one === null || one === undefined || one === "") ? null : make("div", {}, make("dt", { text: name }), make("dd", {}, ...value));
}

function head(found) {
  const labels = Object.entries(found.labels).map(([name, value]) => make("a", { className: "chip", href: `/explore?${new URLSearchParams({ label: `${name}=${value}` })}` }, ...words(`${name}=${value}`)));
  return [
    make("h2", { className: "title" }, badge(found, found.range), make("span", { text: `${found.metric} ` }), make("span", { className: "name" }, ...words(found.event_id))),
    make("p", { className: "reason lead", dir: "auto" }, ...words(verdictText(found))),
    make("p", { className: "about" }, make("span", { className: "quiet", text: `answered ${moment(found.at)} UTC` }), ...labels),
    ...(found.result.corrections?.length ? [notes("Corrected by code", found.result.corrections)] : []),
    ...(found.result.suspicions?.length ? [notes("Suspected by code, score unchanged", found.result.suspicions)] : []),
  ];
}

function verdictText(found) {
  const verdict = found.result.verdict ?? {};
  if (found.status === "failed") return `${found.result.error_type}: ${found.result.detail}`;
  if (Array.isArray(verdict.rationale)) return verdict.rationale.join("\n");
  return verdict.justification ?? found.result.reason ?? "";
}

function notes(title, list) {
  return make("details", { className: "notes", open: true }, make("summary", { text: `${title} (${list.length})` }),
    make("ul", {}, ...list.slice(0, 200).map((one) => make("li", {}, make("b", { text: one.kind.replaceAll("_", " ") }), " ", make("span", { dir: "auto" }, ...words(one.detail))))));
}

function outside(name, address) {
  return address ? make("a", { href: address, rel: "noreferrer noopener", target: "_blank", text: name }) : null;
}

function facts(found) {
  const { result } = found;
  const judge = result.judge;
  const usage = result.usage ?? {};
  return [
    ...(found.people.length ? [make("h3", { text: "What people say" }), make("ul", { className: "people" }, ...found.people.map((one) => make("li", {},
      make("b", { text: one.score === null ? "cannot say" : `should be ${one.value ?? one.score}` }), ` by `, ...words(one.who), ` on ${one.labelled_at.slice(0, 16).replace("T", " ")}`, one.note ? ": " : "", make("span", { dir: "auto" }, ...words(one.note)))))] : []),
    make("h3", { text: "Verdict" }),
    make("dl", {}, ...[
      fact("judge", judge ? `${judge.model_answered} at ${judge.endpoint}` : "no call"),
      fact("tries", judge ? `${judge.tries}${judge.fallback ? ", fallback" : ""}${judge.cached ? ", from the cache" : ""}` : null),
      fact("evaluator", make("a", { href: `/explore?${new URLSearchParams({ evaluator: result.evaluator.fingerprint })}`, text: result.evaluator.fingerprint })),
      fact("scoring", result.evaluator.scoring),
      fact("score before rounding", result.score_exact ?? null),
      fact("tokens in, cached, out", `${count(usage.input_tokens)}, ${count(usage.cached_tokens)}, ${count(usage.output_tokens)}`),
      fact("cost", dollars(result.cost_usd)),
      fact("judge took", result.times.judge_seconds === null ? null : `${number(result.times.judge_seconds, 2)} s`),
      fact("sampling probability", String(result.sampling.probability)),
      fact("stratum", ...words(result.sampling.stratum)),
      fact("trace", outside("trace", found.links.trace), found.links.trace ? " " : "", result.trace_id ?? ""),
      fact("result's record", `${found.links.topic} ${found.record.partition}@${found.record.offset} `, outside("open", found.links.record)),
      fact("event's record", `${result.source.topic} ${result.source.partition}@${result.source.offset} `, outside("open", found.links.event)),
    ].filter((one) => one !== null)),
    ...(found.others.length ? [make("h3", { text: "Other verdicts on this answer" }), make("ol", { className: "others" }, ...found.others.map((one) => row(one, found.ranges, (other) => `/explore/verdict/${other.result_id}`)))] : []),
    make("details", {}, make("summary", { text: "The whole record as JSON" }), make("pre", { tabindex: 0, role: "region", "aria-label": "The whole record" }, ...words(JSON.stringify(found.raw, null, 2)))),
  ];
}

function neighbour(by) {
  const at = list?.ids.indexOf(key) ?? -1;
  const next = at < 0 ? undefined : list.ids[at + by];
  if (next) location.href = `/explore/verdict/${next}`;
}

function place() {
  const at = list?.ids.indexOf(key) ?? -1;
  if (at < 0) return;
  id("back").href = list.address ?? `/explore${list.search}`;
  const other = (by, text, name) => (list.ids[at + by] ? [" ", make("a", { href: `/explore/verdict/${list.ids[at + by]}`, text }), " ", make("kbd", { text: name })] : []);
  id("place").append(`${at + 1} of ${list.ids.length} in the list:`, ...other(1, "next", "j"), ...other(-1, "previous", "k"), " ", make("a", { href: id("back").href, text: "back" }), " ", make("kbd", { text: "u" }));
}

async function load() {
  place();
  try {
    const found = await ask(`/explore/api/verdict/${key}`);
    document.title = `${found.metric} ${found.score ?? found.status} - judgestream`;
    id("head").replaceChildren(...head(found));
    id("texts").replaceChildren(...texts(found));
    id("facts").replaceChildren(...facts(found));
    trouble(null);
    document.body.dataset.busy = "false";
  } catch (error) {
    trouble(error);
  }
}

keys({ j: () => neighbour(1), k: () => neighbour(-1), u: () => { location.href = id("back").href; } });
front();
load();
