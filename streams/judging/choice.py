"""Choose the judge of a command without a settings file: the OPENAI_* variables, or the offline judge."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from judge.endpoints.addresses import list_models
from judge.errors import JudgeUnavailableError
from judge.text.printable import printable
from streams.errors import SettingsError
from streams.settings import EndpointSettings, default_endpoints

MODELS_TIMEOUT_SECONDS = 15.0
MAX_MODELS_SHOWN = 20
_MODEL_TO_BE_FOUND = "?"


async def chosen_endpoint(
    env: Mapping[str, str], *, base_url: str | None = None, model: str | None = None
) -> EndpointSettings | None:
    """Return the endpoint that options and environment describe.

    Args:
        env: Environment variables: OPENAI_BASE_URL, OPENAI_API_KEY (sent to the chosen address) and
            OPENAI_MODEL.
        base_url: Overrides OPENAI_BASE_URL.
        model: Overrides OPENAI_MODEL. If neither is set, the only model at the address is used.

    Returns:
        The endpoint; None if neither options nor environment describe one.

    Raises:
        SettingsError: The address is invalid, or the model must be set.
        JudgeUnavailableError: The models cannot be listed.
    """
    values = dict(env)
    if base_url is not None:
        values["OPENAI_BASE_URL"] = base_url
    if model is not None:
        values["OPENAI_MODEL"] = model
    is_open = bool(values.get("OPENAI_BASE_URL", "").strip()) and not values.get("OPENAI_MODEL", "").strip()
    endpoints = default_endpoints({**values, "OPENAI_MODEL": _MODEL_TO_BE_FOUND} if is_open else values)
    if not endpoints:
        return None
    endpoint = endpoints[0]
    if not is_open:
        return endpoint
    models = await _models(endpoint.base_url, values.get("OPENAI_API_KEY", "").strip())
    if len(models) == 1:
        return endpoint.model_copy(update={"model": models[0]})
    choices = ", ".join(printable(one, 100) for one in models[:MAX_MODELS_SHOWN]) or "none"
    raise SettingsError(
        [
            (
                f"OPENAI_MODEL: is required, {endpoint.base_url} serves {len(models)} models "
                f"({choices}); set it to one"
            )
        ]
    )


async def _models(base_url: str, api_key: str) -> tuple[str, ...]:
    url = f"{base_url}/models"
    try:
        listed = await list_models(base_url, api_key, timeout_seconds=MODELS_TIMEOUT_SECONDS)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise JudgeUnavailableError(
            f"{url} does not answer ({type(error).__name__}); check the address and that it runs"
        ) from error
    if listed.status != 200:
        raise JudgeUnavailableError(
            f"{url} answers with status {listed.status}; set OPENAI_MODEL to the model's name"
        )
    return listed.names or ()
