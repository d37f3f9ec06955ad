"use strict";
(() => {
  const form = document.querySelector("form"), body = document.querySelector("#rows tbody");
  if (!form || !body) return;
  const rows = Array.from(body.rows, (row) => ({ row, text: row.textContent.toLowerCase() }));
  const value = (row, key) => {
    const text = row.dataset[key] ?? "";
    return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compare = (one, two) => {
    if (one === null || two === null) return (one === null) - (two === null);
    return one < two ? -1 : one > two ? 1 : 0;
  };
  const show = () => {
    const words = form.elements.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const metric = form.elements.metric?.value, only = form.elements.only.value;
    let count = 0;
    for (const { row, text } of rows) {
      const kinds = (row.dataset.kinds ?? "").split(" ");
      row.hidden = !(words.every((word) => text.includes(word)) && (!metric || row.dataset.metric === metric)
        && (!only || kinds.includes(only)));
      count += !row.hidden;
    }
    document.querySelector("#count").textContent = `${count} of ${rows.length} rows`;
  };
  const sort = () => {
    const [key, way] = form.elements.sort.value.split(" ");
    const sign = way === "down" ? -1 : 1;
    const keyed = rows.map((one) => [value(one.row, key), one]);
    keyed.sort(([one, a], [two, b]) =>
      (one === null || two === null ? compare(one, two) : sign * compare(one, two)) || a.row.dataset.place - b.row.dataset.place);
    body.append(...keyed.map(([, one]) => one.row));
    for (const head of document.querySelectorAll("#rows thead th[data-key]")) {
      head.setAttribute("aria-sort", head.dataset.key !== key ? "none" : sign < 0 ? "descending" : "ascending");
    }
  };
  for (const button of document.querySelectorAll("#rows thead button")) {
    button.addEventListener("click", () => {
      const key = button.closest("th").dataset.key;
      form.elements.sort.value = form.elements.sort.value === `${key} up` ? `${key} down` : `${key} up`;
      sort();
    });
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.elements.sort.addEventListener("change", sort);
  form.hidden = false;
  show();
})();
