"""Section `ingest.registry`: the schema registry of the events."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from streams.settings.addresses import web_address
from streams.settings.base import EnvName, FilePath, Section, refuse


class RegistryAuthSettings(Section):
    """Credentials for a schema registry."""

    username: str | None = Field(
        default=None,
        min_length=1,
        description="User for basic authentication; without it the secret is a bearer token.",
    )
    secret_env: EnvName | None = Field(
        default=None, description="Name of the environment variable with the password or token."
    )
    secret_file: FilePath | None = Field(default=None, description="File with the password or token.")

    @model_validator(mode="after")
    def _secret(self) -> Self:
        if not (self.secret_env or self.secret_file):
            refuse([("secret_env", "is required; add it or secret_file, or remove auth")])
        return self


class RegistrySettings(Section):
    """The schema registry of the events (Confluent's interface)."""

    url: Annotated[str, AfterValidator(web_address)] = Field(description="Its address.")
    auth: RegistryAuthSettings | None = Field(default=None, description="Credentials; None: no login.")
    ca: FilePath | None = Field(
        default=None, description="File with certificate authorities; None: the system's."
    )
