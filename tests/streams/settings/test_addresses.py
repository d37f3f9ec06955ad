from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from streams.settings import EndpointSettings, KafkaSettings
from streams.settings.addresses import sends_key_in_the_clear
from streams.settings.intake import RegistrySettings
from streams.settings.problems import explain

SECRET = "s3cr3t-Value-42"


def problem(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        EndpointSettings(name="a", model="m", **fields)
    return "\n".join(explain(caught.value, EndpointSettings))


@pytest.mark.parametrize(
    "address",
    [
        f"https://api.example.com/v1?key={SECRET}",
        f"https://api.example.com/v1?api-version=1&subscription={SECRET}",
        f"https://api.example.com/v1?{SECRET}",
        f"https://api.example.com/v1#{SECRET}",
        f"https://user:{SECRET}@api.example.com/v1",
        f"ftp://api.example.com/v1?key={SECRET}",
        f"https://[api.example.com/v1?key={SECRET}",
        f"https://api.example.com/v1?{'&'.join([f'a={SECRET}'] * 50)}",
        f"https://api.example.com/sk-proj-abcdefgh{SECRET}/v1",
        f"https://api.example.com/v1?api-version=sk-proj-abcdefgh{SECRET}",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(address: str) -> None:
    """An address with a secret is refused without quoting it, because commands print addresses."""
    said = problem(base_url=address)
    assert SECRET not in said
    assert said.startswith("base_url: ")


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{SECRET}@registry.example.com",
        f"https://registry.example.com:{SECRET}",
        f"https://registry.example.com?access_token={SECRET}",
        f"https://hooks.slack.com/services/T00000000/B00000000/{SECRET}",
        f"https://registry.example.com/glpat-abcdefghijkl{SECRET}/x",
    ],
)
def test_addresses_of_other_services_hold_no_secret_either(address: str) -> None:
    """Addresses of a registry, a sink or a webhook, and broker lists, are checked too."""
    with pytest.raises(ValidationError) as caught:
        RegistrySettings(url=address)
    assert SECRET not in "\n".join(explain(caught.value, RegistrySettings))
    with pytest.raises(ValidationError) as caught:
        KafkaSettings(bootstrap_servers=f"user:{SECRET}@kafka:9092")
    assert SECRET not in "\n".join(explain(caught.value, KafkaSettings))


def test_an_address_may_name_a_version() -> None:
    """An address may have a version, as Azure requires."""
    address = "https://a.openai.azure.com/openai/v1?api-version=2026-01-01"
    assert EndpointSettings(name="a", model="m", base_url=address).base_url == address


@pytest.mark.parametrize(
    "parameters",
    [
        {"api_key": SECRET},
        {"apiKey": SECRET},
        {"extra_headers": {"X-Tenant": SECRET}},
        {"metadata": {"auth-token": SECRET}},
        {"metadata": [{"password": SECRET}]},
        {"user": f"Bearer {SECRET}"},
        {"user": "sk-proj-abcdefghijklmnopqrstuvwx"},
    ],
)
def test_a_parameter_that_is_a_secret_is_refused(parameters: dict[str, Any]) -> None:
    """A secret among the parameters is refused, because each result repeats them."""
    said = problem(parameters=parameters)
    assert "published in every result" in said
    assert SECRET not in said
    assert "sk-proj" not in said


def test_ordinary_parameters_are_taken() -> None:
    """Token counts and cache keys are not secrets."""
    given = {
        "temperature": 0,
        "max_tokens": 5,
        "max_completion_tokens": 5,
        "prompt_cache_key": "a",
        "logit_bias": {"50256": -100},
        "stop": ["\n"],
        "reasoning": {"effort": "low", "max_tokens": 5},
    }
    assert EndpointSettings(name="a", model="m", parameters=given).parameters == given


@pytest.mark.parametrize(
    ("address", "has_key", "warned"),
    [
        ("http://judge.internal:8000/v1", True, True),
        ("http://judge.internal:8000/v1", False, False),
        ("https://judge.internal/v1", True, False),
        ("http://127.0.0.1:8000/v1", True, False),
        ("http://localhost:8000/v1", True, False),
    ],
)
def test_a_key_sent_over_http_is_reported(address: str, has_key: bool, warned: bool) -> None:
    """A key over http is reported, if it is sent to another machine."""
    assert sends_key_in_the_clear(address, has_key=has_key) is warned
