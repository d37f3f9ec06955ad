"""Agreement of the offline judge with human labels: the area under the ROC curve.

**Coverage** against human correct / incorrect of open-domain answers (NQ), by the exact score before
rounding; improper questions and answers without a label are excluded. The file joins alternative right
answers with "/". Reported against the whole reference, and against the best alternative. Baseline, in the
same two ways: the share of the reference's distinct words in the answer.

**Claim support** against experts' labels of claims (ExpertQA): "Complete" is positive, "Incomplete" and
"Missing" are negative, "Partial" and claims without a label are excluded. Labels are matched by words to the
claims that the judge reads from the answer; labels without a similar claim are counted and excluded. Reported
for the share of words in the best passage of a cited page, and for the boolean that the verdict uses (the
share is high enough, and no number or negation differs); for claims that cite a page, and for all. Baseline:
the share of the claim's distinct words on its cited pages; for the boolean with the judge's threshold.

Ties count half. `benchmarks/README.md` says which rules were tuned on these files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.report import Line, data_file
from judge.metrics.scoring import coverage_score
from judge.offline.rules import CLAIM_SHARE, coverage_evidence, judge_claims
from judge.text.citations import page_number
from judge.text.normal import normalise
from judge.text.words import words

_LABELS = frozenset({"Complete", "Incomplete", "Missing"})


def area_under_curve(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """Return the probability that a positive case ranks above a negative one; ties count half.

    By the Mann-Whitney rank statistic: (R - P(P+1)/2) / (P N), R the sum of the positives' midranks.

    Args:
        positive: Scores of the positive cases.
        negative: Scores of the negative cases.

    Returns:
        0..1; None if either kind is missing.
    """
    if not positive or not negative:
        return None
    ranked = sorted([(number, True) for number in positive] + [(number, False) for number in negative])
    rank_sum = Fraction(0)
    start = 0
    while start < len(ranked):
        end = start
        while end < len(ranked) and ranked[end][0] == ranked[start][0]:
            end += 1
        midrank = Fraction(start + 1 + end, 2)
        rank_sum += midrank * sum(is_positive for _, is_positive in ranked[start:end])
        start = end
    count = len(positive)
    return float((rank_sum - Fraction(count * (count + 1), 2)) / (count * len(negative)))


def word_recall(said: str, text: str) -> float:
    """Return the share of a text's distinct words in another text; 0 without words."""
    wanted = {word.text for word in words(said)}
    return len(wanted & {word.text for word in words(text)}) / len(wanted) if wanted else 0.0


def run() -> Iterator[dict[str, object]]:
    """Measure; missing data sets are named and skipped."""
    for measure, names in (
        (_coverage, ("nq_events.jsonl", "nq_labels.jsonl")),
        (_support, ("expertqa_events.jsonl", "expertqa_labels.jsonl")),
    ):
        paths = [data_file(name) for name in names]
        if None in paths:
            message = f"skipped: {' or '.join(names)} is not there (JUDGESTREAM_DATA names the folder)"
            print(message, file=sys.stderr)
            yield Line(f"agreement: {names[0].split('_')[0]}", None, "AUC", note=message).as_json()
            continue
        events, labels = (_read(path) for path in paths if path is not None)
        for line in measure(events, labels):
            yield line.as_json()


def _coverage(events: Sequence[dict[str, Any]], labels: Sequence[dict[str, Any]]) -> Iterator[Line]:
    label_of = {label["event_id"]: label for label in labels}
    labelled = [
        (event, label_of[event["event_id"]]["human_correct"])
        for event in events
        if not label_of[event["event_id"]]["improper_question"]
    ]
    cases = [
        (event["reference"], event["answer"], correct) for event, correct in labelled if correct is not None
    ]
    counted = (
        f"offline judge; {sum(case[2] for case in cases)} correct of {len(cases)}; baseline: word recall"
    )
    for name, alternatives in (("whole reference", False), ("best alternative", True)):
        scores: dict[bool, list[float]] = {True: [], False: []}
        recalls: dict[bool, list[float]] = {True: [], False: []}
        for reference, answer, correct in cases:
            references = reference.split("/") if alternatives else [reference]
            scores[correct].append(max(_coverage_of(one, answer) for one in references))
            recalls[correct].append(max(word_recall(one, answer) for one in references))
        yield Line(
            f"agreement: coverage (exact score, {name}) with human correct/incorrect, NQ",
            _area(scores),
            "AUC",
            baseline=_area(recalls),
            note=counted,
        )


def _coverage_of(reference: str, answer: str) -> float:
    evidence = coverage_evidence(reference=reference, answer=answer)
    counts = {
        name: (sum(item["matched"] for item in evidence[name]), len(evidence[name]))
        for name in ("facts", "conclusions", "terms")
    }
    return float(coverage_score(**counts, organization=evidence["organization"]["similar"]).exact)


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A claim labelled by an expert, with the scores of judge and baseline."""

    complete: bool
    cites: bool
    strength: float
    supported: bool
    overlap: float


def _support(events: Sequence[dict[str, Any]], labels: Sequence[dict[str, Any]]) -> Iterator[Line]:
    label_of = {label["event_id"]: label["claims"] for label in labels}
    found: list[_Labelled] = []
    not_found = 0
    for event in events:
        for labelled in _labelled(event, label_of[event["event_id"]]):
            if labelled is None:
                not_found += 1
            else:
                found.append(labelled)
    for name, claims in (("claims that cite", [one for one in found if one.cites]), ("all claims", found)):
        counted = (
            f"offline judge; {sum(one.complete for one in claims)} complete of {len(claims)}; {not_found} "
            "labels without "
            "a like claim left out; baseline: word overlap with the cited pages"
        )
        for kind, values, overlap in (
            (
                "strength",
                [(one.complete, one.strength) for one in claims],
                [(one.complete, one.overlap) for one in claims],
            ),
            (
                "yes or no",
                [(one.complete, float(one.supported)) for one in claims],
                [(one.complete, float(one.overlap >= CLAIM_SHARE)) for one in claims],
            ),
        ):
            yield Line(
                f"agreement: claim support ({kind}, {name}) with experts' labels, ExpertQA",
                _area(_by_label(values)),
                "AUC",
                baseline=_area(_by_label(overlap)),
                note=counted,
            )


def _labelled(event: dict[str, Any], labels: Sequence[dict[str, Any]]) -> Iterator[_Labelled | None]:
    """Yield an event's labelled claims; None for each that the judge does not read as a claim."""
    numbered = ((page_number(name), text) for name, text in (event.get("context") or {}).items())
    pages = {number: text for number, text in numbered if number is not None}
    judged = {
        _key(claim["claim_span"]): (match, claim)
        for match, claim in judge_claims(question=event["question"], answer=event["answer"], pages=pages)
    }
    for label in labels:
        if label["support"] not in _LABELS:
            continue
        one = judged.get(_key(label["claim"]))
        if one is None:
            yield None
            continue
        match, claim = one
        cited = "\n".join(pages.get(page, "") for page in label["pages"])
        yield _Labelled(
            complete=label["support"] == "Complete",
            cites=bool(label["pages"]),
            strength=0.0 if match is None else match.share,
            supported=claim["supported"],
            overlap=word_recall(label["claim"], cited),
        )


def _key(claim: str) -> str:
    return normalise(claim).rstrip(" .")


def _by_label(values: Iterable[tuple[bool, float]]) -> dict[bool, list[float]]:
    sorted_out: dict[bool, list[float]] = {True: [], False: []}
    for label, value in values:
        sorted_out[label].append(value)
    return sorted_out


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _area(values: Mapping[bool, Sequence[float]]) -> float | None:
    area = area_under_curve(values[True], values[False])
    return None if area is None else round(area, 3)


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result))
