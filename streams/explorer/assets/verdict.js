import { id, make, words, number, count, dollars, moment, ask, trouble, badge, row, keys, front } from "./dom.js";

const key = location.pathname.split("/").at(-1);
const list = JSON.parse(sessionStorage.getItem("judgestream.list") ?? "null");
const SHOWN_PAGES = 40;
const OPEN_PAGES = 3;

function fact(name, ...value) {
  return value.every((one) => one === null || one === undefined || one === "") ? null : make("div", {}, make("dt", { text: name }), make("dd", {}, ...value));
}

function text(pieces, items) {
  // An item's number stands where it ends, once.
  const last = new Map();
  pieces.forEach(([, numbers], index) => { for (const one of numbers) last.set(one, index); });
  return pieces.map(([part, numbers], index) => {
    const ending = numbers.filter((one) => last.get(one) === index);
    if (!numbers.length) return make("span", {}, ...words(part));
    const bad = numbers.some((one) => !items[one - 1].upheld);
    const mark = make("mark", { className: bad ? "bad" : "good", title: numbers.map((one) => `${one}: ${said(items[one - 1])}`).join("; ") }, ...words(part),
      ending.length ? make("sup", { text: ending.join(" ") }) : null);
    mark.dataset.items = numbers.join(" ");
    return mark;
  });
}

function said(item) {
  if (item.kind === "claim") return item.upheld ? "supported" : "not supported";
  return item.upheld ? "matched" : "not matched";
}

function side(title, pieces, items, className = "") {
  const heading = make("h3", { text: title });
  return make("section", { className: `side ${className}` }, heading, make("div", { className: "prose", dir: "auto", tabindex: 0, role: "region", "aria-label": title }, ...text(pieces, items)));
}

function light(numbers, on) {
  for (const one of document.querySelectorAll("mark, li.item")) {
    const own = (one.dataset.items ?? "").split(" ");
    one.classList.toggle("lit", on && own.some((number) => numbers.includes(number)));
  }
}

function itemList(items) {
  const made = items.map((item) => {
    const line = make("li", { className: `item ${item.upheld ? "good" : "bad"}` },
      make("button", { type: "button", className: "link" },
        make("b", { text: `${item.number} ${item.kind}, ${said(item)}` })),
      make("span", { dir: "auto" }, ...words(item.text)),
      item.pages.length ? make("span", { className: "quiet", text: `cites ${item.pages.map((page) => `Page ${page}`).join(", ")}` }) : null,
      item.added ? make("span", { className: "chip warn", text: "added by code: the judge left it out" }) : null,
      item.why ? make("span", { className: "quiet", dir: "auto" }, ...words(item.why)) : null);
    line.dataset.items = String(item.number);
    const marks = () => document.querySelectorAll(`mark[data-items~="${item.number}"]`);
    line.addEventListener("pointerenter", () => light([String(item.number)], true));
    line.addEventListener("pointerleave", () => light([], false));
    line.querySelector("button").addEventListener("click", () => {
      light([String(item.number)], true);
      for (const mark of marks()) { mark.closest("details")?.setAttribute("open", ""); mark.scrollIntoView({ block: "nearest" }); }
    });
    return line;
  });
  return make("ol", { className: "items" }, ...made);
}

function pagesOf(pages, items) {
  // Pages with evidence first and open; a thousand further ones are closed, and filled when they are opened.
  const marked = (page) => page.pieces.some(([, numbers]) => numbers.length);
  const ordered = [...pages.filter(marked), ...pages.filter((page) => !marked(page))];
  const made = ordered.slice(0, SHOWN_PAGES).map((page) => pageOf(page, items, marked(page) || pages.length <= OPEN_PAGES));
  if (ordered.length > SHOWN_PAGES) {
    const further = make("button", { type: "button", text: `Show ${count(ordered.length - SHOWN_PAGES)} further pages` });
    further.addEventListener("click", () => further.replaceWith(...ordered.slice(SHOWN_PAGES).map((page) => pageOf(page, items, false))));
    made.push(further);
  }
  return made;
}

function pageOf(page, items, open) {
  const body = make("div", { className: "prose", dir: "auto", tabindex: 0, role: "region", "aria-label": page.name });
  const made = make("details", { className: "page" }, make("summary", {}, ...words(page.name)), body);
  const fill = () => { if (!body.childNodes.length) body.append(...text(page.pieces, items)); };
  made.addEventListener("toggle", fill);
  if (open) { fill(); made.open = true; }
  return made;
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

function texts(found) {
  const kept = found.texts;
  if (!kept) return [make("p", { className: "hint", text: "The store keeps no texts of this answer (store.texts, or they are older than it keeps them)." }), ...(found.items.length ? [make("h3", { text: "Evidence" }), itemList(found.items)] : [])];
  const other = kept.reference !== null ? side("Reference", kept.reference, found.items)
    : make("section", { className: "side" }, make("h3", { text: kept.pages.length ? "Pages" : "No pages were cited that exist" }), ...pagesOf(kept.pages, found.items));
  return [
    make("section", { className: "question" }, make("h3", { text: "Question" }), make("div", { className: "prose", dir: "auto" }, ...words(kept.question))),
    kept.excerpt ? make("p", { className: "hint", text: "Only the beginning of each text is kept (store.texts: excerpt)." }) : null,
    make("div", { className: "sides" }, side("Answer", kept.answer, found.items), other),
    found.items.length ? make("section", {}, make("h3", { text: "Evidence" }), make("p", { className: "hint", text: "The numbers stand in the texts; point at one to see its places." }), itemList(found.items)) : null,
    found.organization ? make("p", { className: "hint", dir: "auto" }, `Organization ${found.organization.similar ? "matched" : "mismatched"}: `, ...words(found.organization.justification ?? "")) : null,
  ].filter((one) => one !== null);
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
      make("b", { text: one.score === null ? "cannot say" : `should be ${one.score}` }), ` by `, ...words(one.who), ` on ${one.labelled_at.slice(0, 16).replace("T", " ")}`, one.note ? ": " : "", make("span", { dir: "auto" }, ...words(one.note)))))] : []),
    make("h3", { text: "Verdict" }),
    make("dl", {}, ...[
      fact("judge", judge ? `${judge.model_answered} at ${judge.endpoint}` : "no call was made"),
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
  id("place").append(`${at + 1} of ${list.ids.length} in the list; `, make("kbd", { text: "j" }), " ", make("kbd", { text: "k" }), " next and previous, ", make("kbd", { text: "u" }), " back");
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
