(() => {
  "use strict";
  const rows = JSON.parse(id("data").textContent);
  const FOLD_CHARS = 160;
  const metrics = [...new Set(rows.map((row) => row.metric))];
  const text = (found) => {
    if (!found || found.length <= FOLD_CHARS) return words(found ?? "");
    return [make("details", {}, make("summary", {}, ...words(`${found.slice(0, FOLD_CHARS)}…`)), ...words(found))];
  };
  const reason = (found) => {
    if (!found?.items.length) return words(found?.text ?? "");
    const items = found.items.map(([upheld, what, why]) => make("li", { className: upheld === null ? "" : upheld ? "yes" : "no" },
      upheld === null ? "" : upheld ? "✓ " : "✗ ", ...words(what), " ", make("small", {}, ...words(why))));
    return [make("details", {}, make("summary", {}, ...words(found.text || "evidence")), make("ul", {}, ...items))];
  };
  const under = (first, second) => [...words(first), make("br"), make("small", {}, ...words(second))];
  const signed = (change) => (change === null ? "" : `${change < 0 ? "" : "+"}${Number(change.toPrecision(3))}`);
  // Name, key to sort by, class, cell, and whether it is always shown.
  const columns = [
    ["Event", "event", "", (row) => under(row.event, row.labels), true],
    ["Metric", "", "", (row) => [row.metric], metrics.length > 1],
    ["Question", "", "text", (row) => text(row.question)],
    ["Answer", "", "text", (row) => text(row.answer)],
    ["Reference", "", "text", (row) => text(row.reference)],
    ["Before", "", "n", (row) => words(row.before)],
    ["Score", "score", "n", (row) => words(row.shown), true],
    ["Change", "change", "n", (row) => [signed(row.change)]],
    ["People", "", "", (row) => words(row.people)],
    ["Reason before", "", "text", (row) => reason(row.reason_before)],
    ["Reason", "", "text", (row) => reason(row.reason), true],
    ["Judge", "", "", (row) => under(row.judge, row.judged_at), true],
  ].map(([name, key, className, cell, shown]) => ({ name, key, className, cell, shown: shown ?? rows.some((row) => cell(row).some((one) => one.textContent ?? one)) }))
    .filter((column) => column.shown);
  const body = make("tbody");
  for (const row of rows) {
    row.element = make("tr", { "data-event": row.event }, ...columns.map(({ name, className, cell }) => (name === "Event"
      ? make("th", { scope: "row", "data-name": name }, ...cell(row)) : make("td", { className, "data-name": name }, ...cell(row)))));
    row.text = row.element.textContent.toLowerCase();
    body.append(row.element);
  }
  const select = (label, name, options) => make("label", {}, `${label} `,
    make("select", { name }, ...options.map(([value, shown]) => make("option", { value, text: shown }))));
  const kinds = [["scored", "scored"], ["unscored", "unscored"], ["failed", "failed"], ["changed", "changed since the earlier run"], ["people", "people differ"]];
  const sorts = [["place", "File order"], ["score", "Score"], ["change", "Change"], ["event", "Event"]]
    .filter(([key]) => key !== "change" || rows.some((row) => row.change))
    .flatMap(([key, name]) => [[`${key} up`, `${name}, rising`], [`${key} down`, `${name}, falling`]]);
  const form = make("form", {}, make("label", {}, "Find ", make("input", { name: "find", type: "search" })),
    metrics.length > 1 ? select("Metric", "metric", [["", "all"], ...metrics.map((one) => [one, one])]) : null,
    select("Show", "only", [["", "all rows"], ...kinds.filter(([kind]) => rows.some((row) => row.kinds.includes(kind)))]),
    select("Sort by", "sort", sorts));
  const counted = make("p", { id: "count", role: "status", className: "soft" });
  const heads = columns.map(({ name, key }) => (key ? make("th", { scope: "col", "data-key": key }, make("button", { type: "button", text: name })) : make("th", { scope: "col", text: name })));
  id("results").append(form, counted, make("table", { id: "rows" }, make("thead", {}, make("tr", {}, ...heads)), body));
  const show = () => {
    const wanted = form.elements.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const metric = form.elements.metric?.value, only = form.elements.only.value;
    for (const row of rows) {
      row.element.hidden = !(wanted.every((word) => row.text.includes(word)) && (!metric || row.metric === metric) && (!only || row.kinds.includes(only)));
    }
    counted.textContent = `${rows.filter((row) => !row.element.hidden).length} of ${rows.length} rows`;
  };
  const compare = (one, two) => {
    if (one === null || two === null) return (one === null) - (two === null);
    return one < two ? -1 : one > two ? 1 : 0;
  };
  const sort = () => {
    const [key, way] = form.elements.sort.value.split(" ");
    const sign = way === "down" ? -1 : 1;
    const places = new Map(rows.map((row, place) => [row, place]));
    const value = (row) => (key === "place" ? places.get(row) : row[key]);
    const sorted = [...rows].sort((a, b) => (value(a) === null || value(b) === null ? 1 : sign) * compare(value(a), value(b)) || places.get(a) - places.get(b));
    body.append(...sorted.map((row) => row.element));
    for (const head of heads.filter((one) => one.dataset.key)) {
      head.setAttribute("aria-sort", head.dataset.key !== key ? "none" : sign < 0 ? "descending" : "ascending");
    }
  };
  for (const head of heads.filter((one) => one.dataset.key)) {
    head.firstChild.addEventListener("click", () => {
      const { key } = head.dataset;
      form.elements.sort.value = form.elements.sort.value === `${key} up` ? `${key} down` : `${key} up`;
      sort();
    });
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.elements.sort.addEventListener("change", sort);
  show();
})();
