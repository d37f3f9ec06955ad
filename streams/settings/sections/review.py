"""Section `review`: where people say what a score should be."""

from __future__ import annotations

from pydantic import Field

from streams.settings.base import Section
from streams.settings.sections.telemetry import BasicAuthSettings


class ReviewSettings(Section):
    """The port of `judgestream review`, the only one that writes; TLS is that of section `telemetry`."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8082, ge=0, le=65535, description="Port; 0 takes a free one.")
    basic_auth: BasicAuthSettings | None = Field(
        default=None,
        description=(
            "Login for labelling, different from telemetry's; required if others can reach the address."
        ),
    )
