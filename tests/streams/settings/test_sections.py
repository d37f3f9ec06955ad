"""The checks that span fields and sections, and what the tree builds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from judge.metrics.registry import NAMED
from streams.errors import SettingsError
from streams.intake.from_settings import metric_routes, sampling_policy
from streams.settings import Settings, TopicSettings, default_endpoints
from streams.settings.problems import explain


def complaint(**sections: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(sections)
    return "\n".join(explain(caught.value, Settings))


SASL = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password_env": "PW"}


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (
            {"judge": {"timeout_seconds": 60}},
            (
                "judge.timeout_seconds: must be less than kafka.rebalance_timeout_seconds (60), or a "
                "rebalance would not wait for calls in flight (got 60); lower it or raise the other"
            ),
        ),
        (
            {"kafka": {"heartbeat_interval_seconds": 11}},
            (
                "kafka.heartbeat_interval_seconds: must be at most a third of session_timeout_seconds (30) "
                "(got 11); "
                "lower it"
            ),
        ),
        (
            {"metrics": {"tone": {"unit": "conversation"}}},
            (
                "metrics.tone.unit: conversation needs sampling.key: record_key, or only parts of it would "
                "be sampled"
            ),
        ),
        (
            {"metrics": {"mood": {}}},
            (
                f"metrics.mood: is not a built-in metric (those are {', '.join(NAMED)}); set prompt_pack, "
                "code or python, or rename it"
            ),
        ),
        (
            {"metrics": {"coverage": {"score_range": [0, 5]}}},
            "metrics.coverage.score_range: is fixed for coverage without a prompt pack; remove it",
        ),
        (
            {"metrics": {"tone": {"prompt_pack": "p", "score_range": [5, 5]}}},
            (
                "metrics.tone.score_range: must be [lowest, highest] with lowest < highest (got [5, 5]); "
                "correct it"
            ),
        ),
        (
            {"metrics": {"tone": {"prompt_pack": "p", "mode": "evidence"}}},
            (
                "metrics.tone.mode: must be verbatim with a prompt pack (got 'evidence'); remove mode "
                "or prompt_pack"
            ),
        ),
        ({"metrics": {}}, "metrics: must have at least 1 entries (got a mapping); add some"),
        (
            {"topics": {"scores": "qa.events"}},
            (
                "topics.scores: must differ from topics.events in more than . and _ (got 'qa.events'); "
                "rename one"
            ),
        ),
        (
            {"topics": {"scores": "qa_events"}},
            (
                "topics.scores: must differ from topics.events in more than . and _ (got 'qa_events'); "
                "rename one"
            ),
        ),
        (
            {"topics": {"alerts": "t.coverage", "tasks_prefix": "t."}},
            (
                "topics.tasks_prefix (coverage): must differ from topics.alerts in more than . and _ "
                "(got 't.coverage'); rename one"
            ),
        ),
        ({"topics": {"events": ".."}}, "topics.events: must not be . or .. (got '..'); choose a name"),
        (
            {"topics": {"events": "qa events"}},
            (
                "topics.events: must match ^[A-Za-z0-9._-]{1,249}$ (got 'qa events'); use only what the "
                "pattern "
                "allows"
            ),
        ),
        (
            {"sampling": {"rules": [{"name": "default", "when": {"a": "b"}, "rate": 1}]}},
            "sampling.rules.0.name: default is the stratum of events that match no rule; rename",
        ),
        (
            {"sampling": {"rules": [{"name": "a", "when": {"a": "b"}, "rate": 1}] * 2}},
            "sampling.rules.1.name: is used twice (got 'a'); rename one",
        ),
        (
            {"sampling": {"rules": [{"name": "a", "when": {}, "rate": 1}]}},
            "sampling.rules.0.when: must have at least 1 entries (got a mapping); add some",
        ),
        (
            {"judge": {"endpoints": [{"name": "a", "model": "m"}] * 2}},
            "judge.endpoints.1.name: is used twice (got 'a'); rename one",
        ),
        (
            {"judge": {"endpoints": [{"name": "a", "model": "m", "api_key_env": "A", "api_key_file": "b"}]}},
            "judge.endpoints.0: api_key_env and api_key_file exclude each other; keep one",
        ),
        (
            {"judge": {"endpoints": [{"name": "a", "model": "m", "base_url": "ftp://h"}]}},
            (
                "judge.endpoints.0.base_url: must be an http or https address (got 'ftp://h'); write for "
                "example "
                "http://127.0.0.1:8000/v1"
            ),
        ),
        (
            {"kafka": {"security": SASL | {"password_file": "f"}}},
            "kafka.security: password_env and password_file exclude each other; keep one",
        ),
        (
            {"kafka": {"security": {"protocol": "SSL", "certificate_file": "c"}}},
            "kafka.security: certificate_file and key_file belong together; set both or none",
        ),
        (
            {"kafka": {"security": {"username": "u"}}},
            (
                "kafka.security.username: has no effect with protocol PLAINTEXT; remove it or choose a SASL "
                "protocol"
            ),
        ),
        (
            {"kafka": {"security": {"ca_file": "c"}}},
            (
                "kafka.security.ca_file: has no effect with protocol PLAINTEXT; remove it or choose an "
                "SSL protocol"
            ),
        ),
        (
            {"judge": {"budget_usd_per_day": 25, "budget": {"usd_per_day": 25}}},
            "judge.budget_usd_per_day: duplicates budget.usd_per_day; keep one of them",
        ),
        (
            {"judge": {"hedge_after_seconds": 30}},
            (
                "judge.hedge_after_seconds: must be less than timeout_seconds (30) (got 30); lower it "
                "or remove it"
            ),
        ),
        (
            {"judge": {"cache": {"file": "verdicts"}}},
            "judge.cache.max_entries: must be at least 1 with a file (got 0); raise it or remove file",
        ),
        (
            {
                "judge": {"endpoints": [{"name": "large", "model": "m"}]},
                "metrics": {"coverage": {"endpoints": ["larg"]}},
            },
            (
                "metrics.coverage.endpoints: must name judge.endpoints (those are large), got 'larg'; "
                "add it there or remove it"
            ),
        ),
        (
            {
                "judge": {"endpoints": [{"name": "large", "model": "m"}]},
                "metrics": {"coverage": {"endpoints": ["large", "large"]}},
            },
            "metrics.coverage.endpoints: names an endpoint twice (got ['large', 'large']); remove one",
        ),
        ({"judge": {"budget": {"usd_per_week": 25}}}, "judge.budget.usd_per_week is not a setting"),
    ],
)
def test_contradictions_are_named(sections: dict[str, Any], expected: str) -> None:
    found = complaint(**sections)
    assert found == expected or (found.startswith(expected) and "is not a setting" in expected)


def test_sasl_with_all_it_needs() -> None:
    assert Settings.model_validate({"kafka": {"security": SASL}}).kafka.security.password_env == "PW"


def test_the_tree_is_frozen_and_closed() -> None:
    """Nothing can be changed later, and no section lets an unknown name pass."""
    with pytest.raises(ValidationError, match="frozen"):
        Settings().judge.max_in_flight = 1  # type: ignore[misc]  # what is tested

    def sections(model: type[BaseModel]) -> list[type[BaseModel]]:
        return [model, *(inner for one in model.__subclasses__() for inner in sections(one))]

    base = Settings.__mro__[1]
    for section in sections(base):
        assert section.model_config.get("extra") == "forbid", section
        assert section.model_config.get("frozen") is True, section


def test_task_topics_are_named_by_metric() -> None:
    assert TopicSettings().task_topic("coverage") == "judge.tasks.coverage"


def test_policy_and_routes_are_built_from_plain_values() -> None:
    settings = Settings.model_validate(
        {
            "sampling": {
                "default_rate": 0.5,
                "key": "record_key",
                "rules": [{"name": "gold", "when": {"tenant": "gold"}, "rate": 1}],
            },
            "metrics": {"coverage": {"when": {"has": ["reference"], "labels": {"app": "a"}}, "rate": 0.25}},
        }
    )
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
