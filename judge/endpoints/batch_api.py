"""The batch routes of an OpenAI-compatible API, by the SDK, whose overhead does not matter here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from judge.endpoints.connection import BROKEN
from judge.endpoints.openai_chat import OpenAIChat
from judge.errors import JudgeConfigurationError, JudgeUnavailableError

if TYPE_CHECKING:
    from openai.types import Batch

BATCH_URL: Final = "/v1/chat/completions"
"""Where the lines of a batch go, whatever the base_url."""
KEY: Final = "judgestream"
"""Name in a batch's metadata, whose value finds the batch again."""


class BatchApi:
    """Calls the routes; JudgeConfigurationError: a call cannot succeed. Errors quote no reply."""

    def __init__(self, chat: OpenAIChat) -> None:
        self._chat = chat

    @contextmanager
    def _client(self) -> Iterator[Any]:
        from openai import APIStatusError, OpenAIError  # noqa: PLC0415 - as in `connection`

        try:
            yield self._chat.sdk
        except APIStatusError as error:
            told = f"a batch route of judge endpoint {self._chat.endpoint} answered {error.status_code}"
            if error.status_code >= 500 or error.status_code in {408, 409, 425, 429}:
                raise JudgeUnavailableError(told) from error
            raise JudgeConfigurationError(told, "Check that it serves /files and /batches") from error
        except (OpenAIError, AttributeError, TypeError, *BROKEN) as error:  # two: a reply of no such shape
            told = f"a batch route of judge endpoint {self._chat.endpoint} failed ({type(error).__name__})"
            raise JudgeUnavailableError(told) from error

    async def upload(self, lines: Sequence[bytes]) -> str:
        with self._client() as client:
            file = await client.files.create(file=("batch.jsonl", b"\n".join(lines)), purpose="batch")
            return str(file.id)

    async def create(self, file_id: str, key: str) -> str:
        with self._client() as client:
            batch = await client.batches.create(
                input_file_id=file_id, endpoint=BATCH_URL, completion_window="24h", metadata={KEY: key}
            )
            return str(batch.id)

    async def find(self, key: str, *, since: float) -> str | None:
        """Return the id of the batch with a key, created after a time; None if there is none."""
        with self._client() as client:
            async for batch in client.batches.list(limit=100):
                if (batch.metadata or {}).get(KEY) == key:
                    return str(batch.id)
                if batch.created_at < since - 600:  # its clock may be behind ours
                    break
        return None

    async def retrieve(self, batch_id: str) -> Batch:
        with self._client() as client:
            batch: Batch = await client.batches.retrieve(batch_id)
            return batch

    async def cancel(self, batch_id: str) -> None:
        with self._client() as client:
            await client.batches.cancel(batch_id)

    async def replies(self, batch: Batch, *, requests: int) -> Mapping[str, bytes | None]:
        """Return the body of each reply by its custom id; None if it failed, or if there are several."""
        found: dict[str, bytes | None] = {}
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            raw = bytearray()
            with self._client() as client:
                async with client.files.with_streaming_response.content(file_id) as response:
                    async for part in response.iter_bytes():
                        raw += part
                        if len(raw) > 128 * 1024 * (requests + 16):
                            raise JudgeConfigurationError("the output of a batch is too large for verdicts")
            for custom_id, body in (await asyncio.to_thread(read_lines, bytes(raw))).items():
                found[custom_id] = None if custom_id in found else body
        return found

    async def discard(self, batch: Batch) -> None:
        """Delete the files of a batch, which hold texts."""
        for file_id in filter(None, (batch.input_file_id, batch.output_file_id, batch.error_file_id)):
            with suppress(JudgeConfigurationError), self._client() as client:  # it may be gone
                await client.files.delete(file_id)


def write_line(custom_id: str, body: bytes) -> bytes:
    fields = {"custom_id": custom_id, "method": "POST", "url": BATCH_URL, "body": orjson.Fragment(body)}
    return orjson.dumps(fields)


def read_lines(raw: bytes) -> dict[str, bytes | None]:
    """Read a file of output or errors, as `BatchApi.replies`; lines that cannot be read are left out."""
    found: dict[str, bytes | None] = {}
    for line in raw.split(b"\n"):
        try:
            one = orjson.loads(line)
            custom_id, response = one["custom_id"], one.get("response") or {}
            succeeded = response.get("status_code") == 200 and not one.get("error")
            body = orjson.dumps(response["body"]) if succeeded else None
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            continue
        if isinstance(custom_id, str):
            # Lines that say the same twice are one; of others it is unknown which holds.
            found[custom_id] = body if found.get(custom_id, body) == body else None
    return found
