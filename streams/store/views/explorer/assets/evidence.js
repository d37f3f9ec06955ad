// A verdict's texts side by side, with the places that the judge's evidence points to.
import { make, words, count } from "./dom.js";

const SHOWN_PAGES = 40;
const OPEN_PAGES = 3;

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

export function texts(found) {
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
