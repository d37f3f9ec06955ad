"""The reference of all Prometheus metrics, from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from generate.places import DOCS
from generate.tables import table
from streams.telemetry.catalogue import CATALOGUE, LABELS, Spec
from streams.telemetry.labels import MAX_COMBINATIONS, OTHER

LABEL_MEANINGS: Final[Mapping[str, str]] = {
    "outcome": "of an event: `sampled`, `skipped`, `undecodable`, `unroutable`; of a sink: `delivered`, "
    "`skipped`, `refused`; of a call: `scored`, `unscored`, "
    "`unavailable`, or the type of a failed result",
    "unit": "what is joined: trace or conversation",
    "reason": "why; empty where nothing needs a reason",
    "metric": "what is judged: `coverage`, `relevance`, or the name of a prompt pack's metric",
    "status": "`scored`, `unscored` (nothing to judge) or `failed` (judging went wrong)",
    "score": "the score, a whole number of the metric's scale",
    "endpoint": "name of the judge's endpoint in the settings",
    "model": (
        "the judge's model that was asked for (on results and scores `model` is the event label, where "
        "the settings name it)"
    ),
    "kind": "of tokens: `input`, `cached` (a part of input), `output`; of a correction: what was corrected",
    "period": "of a budget: `hour` or `day`, of UTC",
    "why": "`retention` removed what was to be read next; `shorter`: a log has become shorter",
    "topic": "Kafka topic",
    "partition": "Kafka partition",
    "sink": "name of a sink in the settings",
    "instrumentation": "family of instrumentations, as docs/traces.md lists them",
    "slice": "part of the traffic: `all`, or one label's value such as `app=support`",
    "measure": (
        "what is watched: `mean`, `mix` (the plain mean, which the mix of labels moves), or a share "
        "such as `share_at_most_2`"
    ),
    "end": "`lowest` or `highest`",
    "fingerprint": (
        "hash of everything that makes a number: prompts, response schema, scoring, model, parameters"
    ),
    "met": "whether the results meet the objective of their metric: yes or no",
}

EXAMPLES: Final[Mapping[str, tuple[str, str]]] = {
    "Weighted mean": (
        "Each answer counts for as many as it was sampled from.",
        """sum by (metric) (increase(judgestream_score_weighted_total[1h]))
/ (sum by (metric) (increase(judgestream_score_weight_total[1h])) > 0)""",
    ),
    "Effective sample size": (
        "How many equally weighted answers would say as much (Kish).",
        """sum by (metric) (increase(judgestream_score_weight_total[1h])) ^ 2
/ (sum by (metric) (increase(judgestream_score_weight_square_total[1h])) > 0)""",
    ),
    "Standard error of the mean": (
        (
            "`sqrt(sum(w²(x - mean)²) · n / (n - 1)) / sum(w)`, with n the effective sample size and the "
            "square written out: "
            "`sum(w²x²) - 2 · mean · sum(w²x) + mean² · sum(w²)`. A 95% interval is more than mean ± 1.96 "
            "of it, which is too narrow and too high where nearly all scores are the best: take "
            "`slice:judgestream_score:low1h` and `high1h` ([how](monitoring.md#the-interval))."
        ),
        """sqrt(
  clamp_min(
    sum by (metric) (increase(judgestream_score_weight_square_score_square_total[1h]))
    - 2
      * sum by (metric) (increase(judgestream_score_weighted_total[1h]))
      / sum by (metric) (increase(judgestream_score_weight_total[1h]))
      * sum by (metric) (increase(judgestream_score_weight_square_score_total[1h]))
    + (
        sum by (metric) (increase(judgestream_score_weighted_total[1h]))
        / sum by (metric) (increase(judgestream_score_weight_total[1h]))
      ) ^ 2
      * sum by (metric) (increase(judgestream_score_weight_square_total[1h])),
    0
  )
  / (
    1
    - sum by (metric) (increase(judgestream_score_weight_square_total[1h]))
      / sum by (metric) (increase(judgestream_score_weight_total[1h])) ^ 2
  )
)
/ (sum by (metric) (increase(judgestream_score_weight_total[1h])) > 0)""",
    ),
    "Spread of the scores": (
        "Weighted standard deviation of the scores themselves: `sqrt(sum(wx²) / sum(w) - mean²)`.",
        """sqrt(
  clamp_min(
    sum by (metric) (increase(judgestream_score_weighted_square_total[1h]))
    / (sum by (metric) (increase(judgestream_score_weight_total[1h])) > 0)
    - (
        sum by (metric) (increase(judgestream_score_weighted_total[1h]))
        / sum by (metric) (increase(judgestream_score_weight_total[1h]))
      ) ^ 2,
    0
  )
)""",
    ),
}
"""By title: what it is, and its PromQL."""

_INTRODUCTION: Final = """\
# Metrics

<!-- Made by `python -m generate --write` from streams/telemetry/catalogue.py; changes here are lost. -->

A worker shows these at `/metrics`, in Prometheus' text format or, where asked for, in OpenMetrics, where
`judgestream_scores_total` and `judgestream_event_to_result_seconds` carry trace ids as exemplars. Beside them
stand the usual ones of the process (`process_*`, `python_*`). Names and labels are a contract: they change
with a major version only.

`<labels>` are the event labels that `telemetry.labels` names. Each has at most `telemetry.max_label_values`
values, the first ones seen; the rest is `{other}`, and an event without the label has an empty value. Beyond
{combinations:,} combinations all labels of a result are `{other}`. Characters that Prometheus does not allow
become `_`. A name that results and scores have of their own (`metric`, `status`, `reason`, `score`), or that
rules have (`fingerprint`), gets `event_` in front: the event label `reason` is `event_reason`.

A counter appears when it first counts: a series that is not there yet means 0 for counts of trouble, and "no
data" for scores. It is shown as 0 once and as it is from then on, so that `increase` sees its first step; a
second Prometheus that scrapes the same worker may miss it.
"""

_SUMS: Final = """\
## From the six sums to numbers

Every scored answer carries the probability p with which it was sampled; its weight is w = 1 / p, its score x.
From six sums of both a mean, its error and the effective sample size follow over any window and any choice of
labels:

| sum | metric |
|---|---|
{rows}

The recording rules in `helm/files/rules.yaml` do this over 5 minutes, an hour and a day and keep the scores
of each evaluator apart; take them where you can. By hand, while **one evaluator** judges (see
`judgestream_evaluator_info`):
"""

_SUM_NAMES: Final = {
    "weight": "Σw",
    "weighted": "Σwx",
    "weighted_square": "Σwx²",
    "weight_square": "Σw²",
    "weight_square_score": "Σw²x",
    "weight_square_score_square": "Σw²x²",
}


def reference() -> str:
    """Write the whole page."""
    rows = "\n".join(f"| {sign} | `judgestream_score_{name}_total` |" for name, sign in _SUM_NAMES.items())
    parts = [
        _INTRODUCTION.format(other=OTHER, combinations=MAX_COMBINATIONS),
        table(("name", "type", "unit", "labels", "what it is"), [_row(spec) for spec in CATALOGUE]),
        "## Labels\n",
        table(("label", "meaning"), [(f"`{name}`", meaning) for name, meaning in LABEL_MEANINGS.items()]),
        "## Buckets\n",
        "Upper bounds of the histograms, in seconds; `+Inf` follows.\n",
        table(
            ("name", "buckets"),
            [
                (f"`{spec.name}`", ", ".join(f"{bound:g}" for bound in spec.buckets))
                for spec in CATALOGUE
                if spec.buckets
            ],
        ),
        _SUMS.format(rows=rows),
        *(f"**{title}.** {what}\n\n```promql\n{expr}\n```\n" for title, (what, expr) in EXAMPLES.items()),
    ]
    return "\n".join(parts)


def _row(spec: Spec) -> tuple[str, ...]:
    labels = ", ".join(f"`{LABELS}`" if label == LABELS else f"`{label}`" for label in spec.labels)
    return f"`{spec.name}`", spec.type, spec.unit, labels, spec.help


def files() -> Mapping[Path, str]:
    """What is committed, by its path."""
    return {DOCS / "metrics.md": reference()}
