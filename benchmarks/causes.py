"""How often an incident names the right cause, in 200 simulated drops of each kind.

The tests run 40 of each: one model of five, a model and an app together, only the mix, all of the
traffic, a new version of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final

from benchmarks.report import Line
from streams.store.views.causes import Fall, JudgedAnswer, find_causes

RUNS: Final = 200
AIM: Final = 0.95

_MODELS = ("m1", "m2", "m3", "m4", "m5")
_APPS = {"a": (4.2, 0.4), "b": (3.6, 0.3), "c": (3.9, 0.3)}
_JUDGED = 400

Labels = Mapping[str, str]
Drop = tuple[list[JudgedAnswer], list[JudgedAnswer], set[tuple[str, str, str]]]
"""Answers before and after, and the causes that are to be named."""


def draw(
    noise: Random,
    *,
    apps: Mapping[str, tuple[float, float]] = _APPS,
    lost: Callable[[Labels], float] = lambda _: 0.0,
    further: Labels | None = None,
) -> list[JudgedAnswer]:
    """Return answers judged on a scale of 1 to 5.

    `apps` has each app's mean and share; `lost` returns the points that labels lose.
    """
    answers = []
    for _ in range(_JUDGED):
        app = noise.choices(list(apps), [share for _, share in apps.values()])[0]
        labels = {
            "app": app, "model": noise.choice(_MODELS), "tenant": noise.choice(("gold", "silver")),
            **(further or {})
        }  # fmt: skip
        chance = min(max((apps[app][0] - lost(labels) - 1) / 4, 0.02), 0.98)
        score = 1 + sum(noise.random() < chance for _ in range(4))
        answers.append(JudgedAnswer(labels, score, noise.choice((0.5, 1.0))))
    return answers


def one_value(noise: Random) -> Drop:
    """Answers of one model lose 1.6 points."""
    value = noise.choice(_MODELS)
    after = draw(noise, lost=lambda labels: 1.6 * (labels["model"] == value))
    return draw(noise), after, {("within", "model", value)}


def two_at_once(noise: Random) -> Drop:
    """Answers of one model or of app b lose 1.5 points."""
    value = noise.choice(_MODELS)
    after = draw(noise, lost=lambda labels: 1.5 * (labels["model"] == value or labels["app"] == "b"))
    return draw(noise), after, {("within", "model", value), ("within", "app", "b")}


def mix_alone(noise: Random) -> Drop:
    """More answers come from the hard app."""
    before = draw(noise, apps={"easy": (4.4, 0.8), "hard": (2.4, 0.2)})
    return before, draw(noise, apps={"easy": (4.4, 0.3), "hard": (2.4, 0.7)}), {("mix", "app", "hard")}


def all_traffic(noise: Random) -> Drop:
    """All answers lose 0.8 points."""
    return draw(noise), draw(noise, lost=lambda _: 0.8), {("all", "", "")}


def new_version(noise: Random) -> Drop:
    """A new version of the prompt loses 1.5 points."""
    before = draw(noise, further={"prompt_version": "v7"})
    after = draw(noise, lost=lambda _: 1.5, further={"prompt_version": "v8"})
    return before, after, {("new", "prompt_version", "v8")}


_LAWS = {"a": (4.3, 0.45), "b": (3.7, 0.3), "c": (3.2, 0.25)}
_EASY = {"a": (4.5, 0.6), "b": (3.7, 0.25), "c": (2.0, 0.15)}
_HARD = {"a": (4.5, 0.25), "b": (3.7, 0.15), "c": (2.0, 0.6)}
Lost = Callable[[Labels], float]


def judged(
    noise: Random,
    versions: tuple[str, ...],
    lost: Lost = lambda _: 0.0,
    apps: Mapping[str, tuple[float, float]] = _LAWS,
) -> list[JudgedAnswer]:
    """Return 600 answers of three models by one or several versions of a prompt."""
    answers = []
    for _ in range(600):
        labels = {
            "app": noise.choices(list(apps), [share for _, share in apps.values()])[0],
            "model": noise.choices(("x", "y", "z"), (0.5, 0.3, 0.2))[0],
            "prompt_version": noise.choice(versions),
            "language": noise.choice(("en", "de")),
        }
        chance = min(max((apps[labels["app"]][0] - lost(labels) - 1) / 4, 0.02), 0.98)
        score = 1 + sum(noise.random() < chance for _ in range(4))
        answers.append(JudgedAnswer(labels, score, noise.choice((0.3, 0.6, 1.0))))
    return answers


def one_model_of_three_at_a_roll_out(noise: Random) -> Drop:
    """One model loses while another version rolls out."""
    after = judged(noise, ("v2",), lambda labels: 1.3 * (labels["model"] == "y"))
    return judged(noise, ("v1",)), after, {("within", "model", "y")}


def judge_shift_at_a_complete_roll_out(noise: Random) -> Drop:
    """All lose while another version replaces the old one."""
    # Nothing runs beside the new version, so that only the same time can be said.
    return judged(noise, ("v1",)), judged(noise, ("v2",), lambda _: 0.7), {("new", "prompt_version", "v2")}


def judge_shift_at_a_partial_roll_out(noise: Random) -> Drop:
    """All lose while another version runs beside the old one."""
    return judged(noise, ("v1",)), judged(noise, ("v1", "v2"), lambda _: 0.7), {("all", "", "")}


def guilty_partial_roll_out(noise: Random) -> Drop:
    """The version that runs beside the old one loses."""
    after = judged(noise, ("v1", "v2"), lambda labels: 1.3 * (labels["prompt_version"] == "v2"))
    return judged(noise, ("v1",)), after, {("new", "prompt_version", "v2")}


def crossing_of_two_labels(noise: Random) -> Drop:
    """Answers of one model in one app lose."""
    after = judged(noise, ("v2",), lambda labels: 2.0 * (labels["app"] == "b" and labels["model"] == "x"))
    return judged(noise, ("v1",)), after, {("within", "app x model", "b x x")}


def new_version_in_one_app(noise: Random) -> Drop:
    """The new version loses in one app alone."""
    fallen = {"app": "a", "prompt_version": "v2"}
    after = judged(noise, ("v1", "v2"), lambda labels: 2.2 * (labels.items() >= fallen.items()))
    return judged(noise, ("v1",)), after, {("new", "prompt_version x app", "v2 x a")}


def mix_and_within(noise: Random) -> Drop:
    """The mix changes, and one model loses."""
    after = judged(noise, ("v2",), lambda labels: 1.6 * (labels["model"] == "y"), _HARD)
    return judged(noise, ("v1",), apps=_EASY), after, {("mix", "app", "c"), ("within", "model", "y")}


def no_drop_at_a_roll_out(noise: Random) -> Drop:
    """Nothing is lost while another version rolls out."""
    return judged(noise, ("v1",)), judged(noise, ("v2",)), set()


DROPS: Final = (
    one_value,
    two_at_once,
    mix_alone,
    all_traffic,
    new_version,
    one_model_of_three_at_a_roll_out,
    judge_shift_at_a_complete_roll_out,
    judge_shift_at_a_partial_roll_out,
    guilty_partial_roll_out,
    crossing_of_two_labels,
    new_version_in_one_app,
    mix_and_within,
    no_drop_at_a_roll_out,
)


def found_in(finding: Fall) -> set[tuple[str, str, str]]:
    """Return kind, name and value of each cause; labels of a crossing by name, a new version first."""
    found: set[tuple[str, str, str]] = set()
    for cause in finding.causes:
        where = cause.where if cause.kind == "new" else sorted(cause.where)
        name, value = (" x ".join(parts) for parts in zip(*where, strict=True)) if where else ("", "")
        found.add((cause.kind, name, value))
    return found


def find(before: list[JudgedAnswer], after: list[JudgedAnswer]) -> Fall:
    """Find the causes on a scale of 1 to 5."""
    return find_causes(before, after, scale=(1, 5), products=("model", "prompt_version"))


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    for drop in DROPS:
        right = within = 0
        for seed in range(RUNS):
            before, after, expected = drop(Random(seed))  # noqa: S311 - repeatable noise
            found = found_in(find(before, after))
            right += found == expected
            within += any(kind != "mix" for kind, _, _ in found)
        name = drop.__name__.replace("_", " ")
        yield Line(
            f"causes named exactly: {name}",
            right / RUNS,
            "share",
            aim=f"at least {AIM}",
            met=right >= AIM * RUNS,
        ).as_json()
        if name == "mix alone":
            yield Line(
                "causes: mix alone called anything else", within, "runs", aim="none", met=within == 0
            ).as_json()


if __name__ == "__main__":
    for line in run():
        print(json.dumps(line))
