from __future__ import annotations

from typing import Any

import pytest

from schemas import QAEvent
from schemas.base import EventField
from streams.intake.sampling import LabelsCondition
from streams.intake.selector import EventCondition


def event(**fields: Any) -> QAEvent:
    return QAEvent(**({"event_id": "e", "question": "q", "answer": "a"} | fields))


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({"tenant": "gold", "app": "a"}, True),
        ({"tenant": "silver", "app": "a", "more": "x"}, True),
        ({"tenant": "bronze", "app": "a"}, False),
        ({"tenant": "gold"}, False),
        ({"tenant": "Gold", "app": "a"}, False),
        ({}, False),
    ],
)
def test_every_label_must_have_one_of_its_values(labels: dict[str, str], fits: bool) -> None:
    condition = LabelsCondition.of({"tenant": ["gold", "silver"], "app": ["a"]})
    assert condition.fits(labels) is fits
    assert condition.names == ("tenant", "app")


def test_no_condition_fits_everything() -> None:
    assert LabelsCondition().fits({})
    assert EventCondition().fits(event(question="", answer=""))


@pytest.mark.parametrize(
    ("name", "fields", "fits"),
    [
        ("reference", {}, False),
        ("reference", {"reference": ""}, False),
        ("reference", {"reference": " \n\t\u00a0"}, False),
        ("reference", {"reference": "r"}, True),
        ("answer", {"answer": " "}, False),
        ("question", {}, True),
        ("context", {}, False),
        ("context", {"context": {}}, False),
        ("context", {"context": {"Page-1": " ", "Page-2": ""}}, False),
        ("context", {"context": {"Page-1": " ", "Page-2": "x"}}, True),
    ],
)
def test_blank_fields_are_fields_that_an_event_has_not(
    name: EventField, fields: dict[str, Any], fits: bool
) -> None:
    assert EventCondition(has=(name,)).fits(event(**fields)) is fits


def test_fields_and_labels_must_both_fit() -> None:
    condition = EventCondition(has=("reference",), labels=LabelsCondition.of({"app": ["a"]}))
    assert condition.fits(event(reference="r", labels={"app": "a"}))
    assert not condition.fits(event(reference="r"))
    assert not condition.fits(event(labels={"app": "a"}))
