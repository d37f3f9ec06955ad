"""How far a judge says what people say, and what people would give on average."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Any, Final

from judge.text.printable import printable
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.people import (
    FEWEST_LABELS,
    LabelledAnswer,
    PeopleMean,
    alpha,
    effective_labels,
    is_representative,
    people_mean,
    rogan_gladen,
)
from streams.store.charts import ResultSeries, all_series
from streams.store.database import Snapshot
from streams.store.query import Filter, Filtered
from streams.store.records import milliseconds, number_of
from streams.store.views.labels import Agreement, Scales, agreements, all_labels, choice, is_boolean

MOST_BIASES: Final = 12
POWER: Final = (25, 50, 100, 200, 400)
MOST_UNSAID: Final = 0.05
"""Share of "cannot say" from which the judge's scores of all answers are no scores of those people judge."""
Draw = tuple[str, int]
"""Policy and time of a draw of answers to label."""
REVIEW: Final = "label a random sample: judgestream review"


@dataclass(slots=True)
class LabelledItem:
    """One answer with people's numbers, the judge's, and its weight; no weight: it speaks only for itself."""

    judge: float
    stratum: str
    labels: Mapping[str, str]
    weight: float | None = None
    probability: float = 1.0
    """p_judged, where the labels are of a file."""
    people: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class JudgedSeries:
    metric: str
    judge: str
    fingerprint: str
    scale: tuple[float, float]
    boolean: bool = False
    """Numbers are 1 for true and 0 for false."""
    counts: Counter[tuple[str, float, float]] = field(default_factory=Counter)
    """Judged answers by stratum, the judge's number and p_judged."""
    items: list[LabelledItem] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    unsaid: int = 0

    @property
    def judged(self) -> WeightedSums:
        parts = (WeightedSums.of_counted({key[1:]: count}) for key, count in self.counts.items())
        return WeightedSums.merged(parts)

    @property
    def partly(self) -> bool:
        """Whether people can judge only a part of the answers, so that labels alone estimate that part."""
        return self.unsaid > MOST_UNSAID * (self.unsaid + len(self.items))

    def labelled(self) -> list[LabelledAnswer]:
        """Return the answers whose labels had a known probability; several reviewers count once."""
        return [
            LabelledAnswer(fmean(one.people.values()), one.judge, one.weight)
            for one in self.items
            if one.weight is not None and one.people
        ]

    def refusal(self) -> str | None:
        labelled = self.labelled()
        n, known = effective_labels(labelled), len(labelled)
        if not known and self.items:
            many = "answer was" if len(self.items) == 1 else "answers were"
            what = f"{len(self.items)} labelled {many} not chosen with a known probability"
            return f"{what}; {REVIEW} (a random sample, or all failed and some passed)"
        if n < FEWEST_LABELS:
            more = max(round((FEWEST_LABELS - n) * known / n + 0.5), 1) if known else int(FEWEST_LABELS)
            what = f"{known} labels with a known probability count as {n:.0f}, {FEWEST_LABELS:.0f} are needed"
            return f"{what}; about {more} more: judgestream review"
        strata = {stratum for stratum, _, _ in self.counts}
        strata -= {one.stratum for one in self.items if one.weight is not None and one.people}
        if strata:
            names = ", ".join(printable(one, 40) for one in sorted(strata)[:3])
            return f"no label of answers by the sampling rule {names}; label some of them: judgestream review"
        low, high = self.scale
        if not self.partly and not is_representative(labelled, self.judged, lowest=low, highest=high):
            mean = sum(one.judge * one.weight for one in labelled) / sum(one.weight for one in labelled)
            what = f"the judge gives the labelled answers {mean:.2f} and all {self.judged.mean or 0:.2f}"
            return f"{what}, so their probabilities are of other answers; {REVIEW}"
        return None

    def estimate(self) -> PeopleMean | None:
        if self.refusal() is not None:
            return None
        judged = None if self.partly else self.judged
        return people_mean(self.labelled(), judged, lowest=self.scale[0], highest=self.scale[1])

    def biases(self) -> list[tuple[str, float, tuple[float, float] | None, int]]:
        """Return the judge minus people of all, then by label value, with 95% intervals and labels."""
        groups: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        labelled = [one for one in self.items if one.people]
        weighted = [one for one in labelled if one.weight is not None]
        least = min((one.weight for one in weighted if one.weight is not None), default=1.0)
        for one in weighted or labelled:
            for name in ("all", *(f"{name}={value}" for name, value in sorted(one.labels.items()))):
                groups[name].append((one.judge - fmean(one.people.values()), least / (one.weight or least)))
        width = self.scale[1] - self.scale[0]
        found = []
        for name, differences in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            sums = WeightedSums.of(differences)
            ends = sums.interval(lowest=-width, highest=width) if width > 0 else None
            found.append((name, sums.mean or 0.0, ends, len(differences)))
        return found[: MOST_BIASES + 1]

    def reviewers(self) -> tuple[int, float | None]:
        several = [list(one.people.values()) for one in self.items if len(one.people) > 1]
        return len(several), alpha([[*map(str, one)] if self.boolean else [*one] for one in several])

    def as_json(self) -> dict[str, Any]:
        found, (several, agreed) = self.estimate(), self.reviewers()
        people = None
        if found is not None:
            people = asdict(found) | {
                "alone": found.alone,
                "saved": found.saved,
                "half_after": {str(more): found.half_after(more) for more in POWER},
                "more_to_halve": found.more_for(found.half / 2),
            }
            people |= {"rogan_gladen": rogan_gladen(self.labelled(), found.judge)} if self.boolean else {}
        names = ("of", "bias", "interval", "labels")
        return {
            "metric": self.metric, "judge": self.judge, "fingerprint": self.fingerprint,
            "people": people, "refused": self.refusal(),
            "agreement": [one.as_json() for one in self.agreements],
            "biases": [dict(zip(names, one, strict=True)) for one in self.biases()],
            "reviewers": {"answers": several, "alpha": agreed}, "cannot_say": self.unsaid,
        }  # fmt: skip

    def sentence(self) -> str:
        """Return "People would give 3.6 (3.4 to 3.8), the judge says 4.1", or why not."""
        found = self.estimate()
        if found is None:
            return f"No estimate of what people would give: {self.refusal()}."
        if self.boolean:
            ends = f"{100 * found.mean:.0f}% ({100 * found.low:.0f}% to {100 * found.high:.0f}%)"
            return f"People would say true of {ends}, the judge says {100 * found.judge:.0f}%."
        ends = f"{found.mean:.2f} ({found.low:.2f} to {found.high:.2f})"
        return f"People would give {ends}, the judge says {found.judge:.2f}."

    def lines(self) -> list[str]:
        found, (several, agreed) = self.estimate(), self.reviewers()
        told = [f"{self.metric}, {printable(self.judge, 60)} ({self.fingerprint})", f"  {self.sentence()}"]
        if found is not None:
            told += self._power(found)
        told += ["", "  Agreement"]
        told += [f"    {line}" for one in self.agreements for line in one.lines()]
        if several:
            shown = "none (all choices are equal)" if agreed is None else f"{agreed:.2f}"
            told.append(f"    {several} answers have several reviewers: Krippendorff's alpha {shown}")
        if self.unsaid:
            part = "; the estimate is of the other answers, by labels alone" if self.partly else ""
            told.append(f"    {self.unsaid} labels are left out: cannot say{part}")
        biases = self.biases()
        told += ["", "  The judge minus people (95%)"] if biases else []
        width = max((len(printable(name, 40)) for name, *_ in biases), default=0)
        for name, bias, ends, count in biases:
            between = "" if ends is None else f"  ({ends[0]:+.2f} to {ends[1]:+.2f})"
            told.append(f"    {printable(name, 40):<{width}}  {bias:+.2f}{between}  {count} labels")
        return told

    def _power(self, found: PeopleMean) -> list[str]:
        told = [
            f"    {found.labels} labelled answers count as {found.effective:.0f}; lambda {found.trust:.2f}",
            f"    ±{found.half:.2f}; labels alone ±{found.alone:.2f}: the judge saves {found.saved} labels",
        ]
        if self.boolean:
            corrected = rogan_gladen(self.labelled(), found.judge)
            shown = "none (no better than chance)" if corrected is None else f"{100 * corrected:.0f}%"
            told.append(f"    by Rogan and Gladen's formula, without an interval: {shown}")
        halved = found.more_for(found.half / 2)
        halves = "more labels alone cannot halve this" if halved is None else f"{halved} more halve this"
        power = ", ".join(f"+{more} ±{found.half_after(more):.2f}" for more in POWER)
        return [*told, f"    {halves}; more labels: {power}"]


def calibrations(snapshot: Snapshot, scales: Scales, metric: str | None = None) -> list[JudgedSeries]:
    labels = [one for one in all_labels(snapshot) if metric in (None, one["metric"])]
    known = all_series(snapshot)
    series = _judged(snapshot, known, {(one["metric"], one["fingerprint"]) for one in labels}, scales)
    for one in agreements(labels, {found.fingerprint: found.judge for found in series.values()}):
        if (one.metric, one.fingerprint) in series:
            series[one.metric, one.fingerprint].agreements.append(one)
    drawn: defaultdict[str, defaultdict[Draw, set[str]]] = defaultdict(lambda: defaultdict(set))
    of_result: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for label in labels:
        of_result[label["result_id"]].append(label)
        draw = draw_of(label)
        if draw is not None and label["score"] is not None:
            for name in (label["metric"], ""):  # "": all metrics
                drawn[name][draw].add(label["result_id"])
    counts = {name: {draw: len(some) for draw, some in draws.items()} for name, draws in drawn.items()}
    for given in of_result.values():
        _add_item(snapshot, known, series, given, counts)
    return [one for _, one in sorted(series.items())]


def _judged(
    snapshot: Snapshot, known: Mapping[int, ResultSeries], wanted: set[tuple[str, str | None]], scales: Scales
) -> dict[tuple[str, str], JudgedSeries]:
    series: dict[tuple[str, str], JudgedSeries] = {}
    columns = "series, score, probability"
    answers = Filtered(snapshot, Filter(status="scored"))
    rows = answers.rows(f"{columns}, count(*)", "results_series", f"GROUP BY {columns}")
    for place, score, probability, count in rows:
        metric, fingerprint, model, stratum, _ = known[place]
        if (metric, fingerprint) not in wanted:
            continue
        scale, number = scales.get(metric), float(score)
        boolean = is_boolean(scale)
        if scale is not None and boolean:
            number = float(score == scale.labels["true"])
        ends = (0.0, 1.0) if boolean else (number, number) if scale is None else scale.score_range
        found = series.setdefault(
            (metric, fingerprint), JudgedSeries(metric, model, fingerprint, ends, boolean)
        )
        found.scale = min(found.scale[0], ends[0]), max(found.scale[1], ends[1])
        found.counts[stratum, number, probability] += count
    return series


def draw_of(label: Mapping[str, Any]) -> Draw | None:
    """Return the label's draw from all answers; None if it is of no such draw."""
    chosen = label["selection"]
    if not chosen.get("policy") or chosen.get("frame") or not chosen["probability"] or not chosen["drawn"]:
        return None
    return chosen["policy"], milliseconds(datetime.fromisoformat(chosen["drawn_at"]))


def _add_item(
    snapshot: Snapshot,
    known: Mapping[int, ResultSeries],
    series: Mapping[tuple[str, str], JudgedSeries],
    given: Sequence[Mapping[str, Any]],
    labelled: Mapping[str, Mapping[Draw, int]],
) -> None:
    """Add an answer with its labels.

    Its weight is 1 / p_judged times the sum, over the draws that chose it, of 1 / (p_label r) n / N: r the
    share of the draw that was labelled, n its labels, N those of all draws that could choose it. So draws
    of answers that became more with time are joined without bias (Kalton, Anderson, "Sampling rare
    populations", 1986).
    """
    row = snapshot.execute(
        "SELECT series, score, probability, judged FROM results "
        "WHERE result_id = ? AND replay = 0 AND status = 'scored'",
        (bytes.fromhex(given[-1]["result_id"]),),
    ).fetchone()
    found = series.get((given[-1]["metric"], given[-1]["fingerprint"]))
    if row is None or found is None:
        return
    place, score, probability, judged = row
    item = LabelledItem(float(score), known[place].stratum, known[place].labels)
    if found.boolean:
        item.judge = float(choice(None, given[-1].get("judge_value")) == "true")
    weights: dict[Draw, float] = {}
    for one in given:
        if one["score"] is None:
            found.unsaid += 1
            item.people.pop(one["who"], None)
            continue
        item.people[one["who"]] = float(one.get("value") is True if found.boolean else number_of(one) or 0)
        draw = draw_of(one)
        if draw is not None:
            chosen = one["selection"]
            every, own = labelled[""][draw], labelled.get(found.metric, {})
            could = sum(count for (_, at), count in own.items() if at >= judged)
            share = every / max(chosen["drawn"], every)
            part = own.get(draw, 0) / max(could, own.get(draw, 1))
            weights[draw] = part / (probability * chosen["probability"] * share)
    item.weight = sum(weights.values()) if weights else None
    found.items.append(item)
