"""Properties of the settings model, and what is built from settings."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from streams.errors import SettingsError
from streams.intake.from_settings import metric_routes, sampling_policy
from streams.settings import Settings, TopicSettings, default_endpoints


def test_the_tree_is_frozen_and_closed() -> None:
    """Each section is frozen and forbids unknown names."""
    with pytest.raises(ValidationError, match="frozen"):
        Settings().judge.max_in_flight = 1  # type: ignore[misc]  # the tested assignment

    def sections(model: type[BaseModel]) -> list[type[BaseModel]]:
        return [model, *(inner for one in model.__subclasses__() for inner in sections(one))]

    base = Settings.__mro__[1]
    for section in sections(base):
        assert section.model_config.get("extra") == "forbid", section
        assert section.model_config.get("frozen") is True, section


def test_task_topics_are_named_by_metric() -> None:
    assert TopicSettings().task_topic("coverage") == "judge.tasks.coverage"


def test_policy_and_routes_are_built_from_plain_values() -> None:
    rules = [{"name": "gold", "when": {"tenant": "gold"}, "rate": 1}]
    sampling = {"default_rate": 0.5, "key": "record_key", "rules": rules}
    coverage = {"when": {"has": ["reference"], "labels": {"app": "a"}}, "rate": 0.25}
    settings = Settings.model_validate({"sampling": sampling, "metrics": {"coverage": coverage}})
    policy = sampling_policy(settings.sampling)
    assert policy.label_names == ("tenant",)
    assert policy.key == "record_key"
    assert policy.stratum({"tenant": "gold"}).name == "gold"
    assert policy.stratum({}).rate == 0.5
    (route,) = metric_routes(settings)
    assert (route.metric, route.rate, route.when.has) == ("coverage", 0.25, ("reference",))
    assert route.when.labels.names == ("app",)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"OPENAI_MODEL": "m"}, None),
        ({"OPENAI_API_KEY": "k"}, ("https://api.openai.com/v1", "gpt-4.1-mini", "OPENAI_API_KEY")),
        ({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, ("https://api.openai.com/v1", "m", "OPENAI_API_KEY")),
        ({"OPENAI_BASE_URL": "http://h:1/v1/", "OPENAI_MODEL": "m"}, ("http://h:1/v1", "m", None)),
        (
            {"OPENAI_BASE_URL": "http://h/v1", "OPENAI_MODEL": "m", "OPENAI_API_KEY": "k"},
            ("http://h/v1", "m", "OPENAI_API_KEY"),
        ),
    ],
)
def test_the_usual_variables_give_an_endpoint(
    env: dict[str, str], expected: tuple[str, str, str | None] | None
) -> None:
    endpoints = default_endpoints(env)
    assert [(one.name, one.base_url, one.model, one.api_key_env) for one in endpoints] == (
        [] if expected is None else [("openai", *expected)]
    )


def test_incomplete_variables_are_errors() -> None:
    with pytest.raises(SettingsError, match="OPENAI_MODEL: is required with OPENAI_BASE_URL"):
        default_endpoints({"OPENAI_BASE_URL": "http://h/v1"})
    with pytest.raises(SettingsError, match="OPENAI_BASE_URL: must be an http or https address"):
        default_endpoints({"OPENAI_BASE_URL": "h", "OPENAI_MODEL": "m"})
