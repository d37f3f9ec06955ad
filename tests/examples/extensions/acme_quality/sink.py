"""A sink that appends each verdict to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from streams.settings.base import FilePath, Secret
from streams.settings.outputs import SinkSettings
from streams.sinks.base import Evaluation, Opening, Sink


class LineSettings(SinkSettings):
    """What this sink has besides its kind."""

    path: FilePath
    """The file."""
    prefix: str = Field(default="", max_length=10)
    """What each line begins with."""
    key: Secret
    """Written into each line, to show that it is read."""


class LineSink(Sink[Evaluation]):
    """One line for each verdict; failed ones are refused."""

    Settings = LineSettings

    def __init__(self, settings: LineSettings, opening: Opening) -> None:
        self._path, self._prefix = settings.path, settings.prefix
        self._key = opening.secret(settings.key, "key")

    def wants(self, item: Evaluation) -> bool:
        return item.result.status != "unscored"

    async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(
                f"{self._prefix}{one.result.event_id} {one.score} {self._key}\n"
                for one in batch
                if one.score is not None
            )
        return {one.key: "it failed" for one in batch if one.score is None}
