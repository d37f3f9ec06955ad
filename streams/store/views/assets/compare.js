import { id, make, ask, trouble, words, count, number, table, columns, command, front } from "/assets/dom.js";

const BADGES = { "no worse": "good", worse: "bad", "not yet": "fair" };
const form = id("question");
const given = new URLSearchParams(location.search);

function show(found) {
  const missing = found.answer === "not yet" && found.missing !== null ? ` (about ${count(found.missing)} more answers)` : "";
  const [low, high] = found.interval;
  const [lostLow, lostHigh] = found.unscored_interval.map((end) => 100 * end);
  id("said").replaceChildren(make("span", { className: `badge ${BADGES[found.answer]}`, text: found.answer }), missing,
    ` The mean is ${number(low, 3)} to ${number(high, 3)} points higher with the new value, the margin is ${found.margin}; ${number(lostLow, 1)} to ${number(lostHigh, 1)} % more answers have no score.`);
  const rows = found.values.map((value, index) => [make("span", {}, ...words(`${found.label}=${value}`)),
    ...["scored", "unscored", "failed"].map((status) => count(found.counts[index][status] ?? 0)), count(found.compared[index])]);
  id("values").replaceChildren(table("Answers by value", columns("Value", "#Scored", "#Unscored", "#Failed", "#Independent"), rows));
  const options = [...given].filter(([, value]) => value).map(([name, value]) => `--${name} '${value.replaceAll("'", "'\\''")}'`);
  id("commands").replaceChildren(command("In a pipeline, by its exit code", `judgestream compare --config judgestream.yaml ${options.join(" ")}`));
}

async function load() {
  try {
    const { metrics } = await ask("/explore/api/choices");
    form.elements.metric.replaceChildren(...metrics.map((name) => make("option", { text: name })));
    for (const [name, value] of given) if (form.elements[name]) form.elements[name].value = value;
    id("further").open = ["by", "cluster", "since", "evaluator"].some((name) => given.get(name));
    if (given.get("label")) show(await ask(`/explore/api/compare?${given}`));
  } catch (error) {
    trouble(error);
  }
  document.body.dataset.busy = "false";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  location.search = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
});
front();
load();
