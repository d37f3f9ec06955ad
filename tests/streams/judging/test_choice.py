"""The endpoint that a command uses without a settings file."""

from __future__ import annotations

import pytest

from judge.errors import JudgeUnavailableError
from streams.errors import SettingsError
from streams.judging.endpoints import chosen_endpoint
from tests.streams.cli.commands.judge_server import judge_server


async def test_nothing_named_is_no_endpoint() -> None:
    """Without an address and a key there is no endpoint."""
    assert await chosen_endpoint({}) is None
    assert await chosen_endpoint({"OPENAI_MODEL": "m"}) is None


@pytest.mark.parametrize(
    ("env", "options", "address", "model"),
    [
        ({"OPENAI_API_KEY": "k"}, {"model": "m"}, "https://api.openai.com/v1", "m"),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_MODEL": "theirs"},
            {"base_url": "http://127.0.0.1:2/v1", "model": "mine"},
            "http://127.0.0.1:2/v1",
            "mine",
        ),
    ],
    ids=["a key alone", "options over the environment"],
)
async def test_options_override_the_environment(
    env: dict[str, str], options: dict[str, str], address: str, model: str
) -> None:
    """Options override address and model of the environment; a key alone means OpenAI's address."""
    endpoint = await chosen_endpoint(env, **options)
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.model) == (address, model)
    assert (endpoint.api_key and endpoint.api_key.env) == (
        "OPENAI_API_KEY" if "OPENAI_API_KEY" in env else None
    )


async def test_the_only_model_is_taken() -> None:
    """The only model in the server's list is used."""
    async with judge_server(lambda _: "", models=("only",)) as server:
        endpoint = await chosen_endpoint({"OPENAI_BASE_URL": server.url})
    assert endpoint is not None
    assert endpoint.model == "only"


@pytest.mark.parametrize(
    ("models", "named"), [((), "0 models (none)"), (("a", "b\x1b"), r"2 models (a, b\x1b)")]
)
async def test_several_models_or_none_are_an_error(models: tuple[str, ...], named: str) -> None:
    """Several models, or none, are an error that lists them with control characters escaped."""
    async with judge_server(lambda _: "", models=models) as server:
        with pytest.raises(SettingsError) as caught:
            await chosen_endpoint({"OPENAI_BASE_URL": server.url})
    assert named in str(caught.value)


async def test_a_server_without_a_list_needs_a_named_model() -> None:
    """A server without /models (404) requires OPENAI_MODEL."""
    async with judge_server(lambda _: "") as server:
        with pytest.raises(JudgeUnavailableError, match=r"status 404; set OPENAI_MODEL"):
            await chosen_endpoint({"OPENAI_BASE_URL": f"{server.url}/elsewhere"})


async def test_a_refused_connection_is_an_outage() -> None:
    """A refused connection is an outage (no process listens on port 1)."""
    with pytest.raises(JudgeUnavailableError, match="does not answer"):
        await chosen_endpoint({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
