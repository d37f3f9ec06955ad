"""Generate the reference of Prometheus metrics from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from generate.places import DOCS
from generate.tables import table
from streams.telemetry.catalogue import CATALOGUE, LABELS, PROCESS, Spec
from streams.telemetry.labels import MAX_COMBINATIONS, OTHER

LABEL_MEANINGS: Final[Mapping[str, str]] = {
    "outcome": "of an event: `sampled`, `skipped`, `undecodable`, `unroutable`; of a sink: `delivered`, "
    "`skipped`, `refused`; of a call: `scored`, `unscored`, "
    "`unavailable`, or the type of a failed result",
    "unit": "kind of join: trace or conversation",
    "reason": "reason; may be empty",
    "metric": "the judged metric: `coverage`, `relevance`, or the name of another metric",
    "status": "`scored`, `unscored` (nothing to judge) or `failed` (judging failed)",
    "score": "the score, a whole number of the metric's scale",
    "endpoint": "name of the judge's endpoint in the settings",
    "model": (
        "the requested judge model (on results and scores `model` is the event label, if the settings "
        "name it)"
    ),
    "kind": "of tokens: `input`, `cached` (a part of input), `output`; of a correction: its kind",
    "agent": "part of a worker: `intake`, `judge`, `monitor`, `store` or `sink`",
    "version": "version of judgestream",
    "period": "of a budget: `day`, of UTC",
    "cap": "of a budget: `all`, `sampling.budget`, a metric, or `METRIC by LABEL`: of that the fullest value",
    "stratum": "the sampling rule, or `default`",
    "why": "`retention`: the next records were removed; `shorter`: the log became shorter",
    "topic": "Kafka topic",
    "partition": "Kafka partition",
    "sink": "name of a sink in the settings",
    "instrumentation": "family of instrumentations, as docs/traces.md lists them",
    "slice": "slice of the traffic: `all`, or one label's value such as `app=support`",
    "measure": (
        "the statistic: `mean`, `mix` (the plain mean, which the mix of labels changes), or a share such "
        "as `share_at_most_2`"
    ),
    "end": "`lowest` or `highest`",
    "fingerprint": (
        "hash of everything that determines a score: prompts, response schema, scoring, model, parameters"
    ),
    "label": "the compared label of a release gate",
    "old": "its value that is compared with",
    "new": "its value of the release",
    "met": "whether the results meet the objective of their metric: yes or no",
}

EXAMPLES: Final[Mapping[str, tuple[str, str]]] = {
    "Weighted mean": (
        "Each answer is weighted by 1 / sampling probability.",
        """sum by (metric) (increase(judgestream_score_weighted_total[1h]))
/ (sum by (metric) (increase(judgestream_score_weight_total[1h])) > 0)""",
    ),
    "Effective sample size": (
        "Number of equally weighted answers with the same precision (Kish).",
        """sum by (metric) (increase(judgestream_score_weight_total[1h])) ^ 2
/ (sum by (metric) (increase(judgestream_score_weight_square_total[1h])) > 0)""",
    ),
    "Standard error of the mean": (
        (
            "`sqrt(sum(w²(x - mean)²) · n / (n - 1)) / sum(w)`, with n the effective sample size and the "
            "square written out: "
            "`sum(w²x²) - 2 · mean · sum(w²x) + mean² · sum(w²)`. Mean ± 1.96 standard errors is "
            "too narrow and too high if nearly all scores are the best: for a 95% interval use "
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
"""By title: meaning and PromQL."""

_INTRODUCTION: Final = """\
# Metrics

<!-- Made by `python -m generate --write` from streams/telemetry/catalogue.py; changes here are lost. -->

A worker exposes these at `/metrics`, in Prometheus' text format or, if requested, in OpenMetrics, in which
`judgestream_scores_total` and `judgestream_event_to_result_seconds` carry trace ids as exemplars. The client
library's own metrics (`process_*`, `python_*`) are exposed, too; rules and dashboards use those at the end of
the table. Names and labels change only with a major version.

`<labels>` are the event labels that `telemetry.labels` names. Each has at most 20
values, the most frequent ones; the rest is `{other}`, and an event without the label has an empty value.
Beyond {combinations:,} combinations all labels of a result are `{other}`. Characters that Prometheus
does not allow become `_`. A label name that results and scores already have (`metric`, `status`, `reason`,
`score`), or that rules have (`fingerprint`), gets `event_` in front: the event label `reason` is
`event_reason`.

A counter appears with its first count: a missing series means 0 for counts of failures, and "no data" for
scores. Its first scrape shows 0, so that `increase` sees the first step; a second Prometheus that scrapes the
same worker may miss it.
"""

_SUMS: Final = """\
## From the six sums to numbers

Every scored answer has an inclusion probability p, a weight w = 1 / p and a score x.
Six sums give the mean, its standard error and the effective sample size over any window and selection of
labels:

| sum | metric |
|---|---|
{rows}

The recording rules in `helm/files/rules.yaml` do this over 5 minutes, an hour and a day, separately for each
evaluator; use them if possible. By hand, while **one evaluator** judges (see
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
    """Return the page."""
    rows = "\n".join(f"| {sign} | `judgestream_score_{name}_total` |" for name, sign in _SUM_NAMES.items())
    parts = [
        _INTRODUCTION.format(other=OTHER, combinations=MAX_COMBINATIONS),
        table(
            ("name", "type", "unit", "labels", "description"), [_row(spec) for spec in (*CATALOGUE, *PROCESS)]
        ),
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
    """Return the page by its path."""
    return {DOCS / "metrics.md": reference()}
