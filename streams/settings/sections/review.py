"""Section `review`: the server for labelling verdicts."""

from __future__ import annotations

from pydantic import Field

from streams.settings.base import Section
from streams.settings.sections.telemetry import BasicAuthSettings


class ReviewSettings(Section):
    """The port of `judgestream review`, the only one that writes; section `telemetry` sets its TLS."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8082, ge=0, le=65535, description="Port; 0 picks a free one.")
    basic_auth: BasicAuthSettings | None = Field(
        default=None,
        description=(
            "Login for labelling, separate from telemetry's; required if others can reach the address."
        ),
    )
