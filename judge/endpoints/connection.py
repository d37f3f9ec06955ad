"""HTTP to an OpenAI-compatible API: POST of a call with little overhead, the list of models, and batches.

Calls go directly to the `aiohttp` session below the `openai` SDK's HTTP client, because that client's layers
take more CPU time than sending the request and reading the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import orjson

from judge.chat import ChatRequest
from judge.endpoints.options import is_loopback
from judge.errors import JudgeConfigurationError, JudgeUnavailableError

if TYPE_CHECKING:
    import httpx2 as httpx
    from openai.types import Batch

    from judge.endpoints.openai_chat import OpenAIChat
else:  # the SDK's client is built on one of the two; asking the SDK itself would import it
    httpx = import_module("httpx2" if "httpx2" in str(metadata.requires("openai")) else "httpx")

# Below the 5 s after which uvicorn (and so vLLM and many gateways) closes an idle connection: a request sent
# into a closing connection is lost.
_KEEPALIVE_SECONDS = 4.0
_fresh: ContextVar[bool] = ContextVar("fresh", default=False)
"""Whether the current call needs a new connection."""


class UnreadReplyError(Exception):
    """A body is too large or compressed; `is_event_s`: due to the request, so that a retry would not help."""

    def __init__(self, why: str, *, is_event_s: bool = False) -> None:
        super().__init__(why)
        self.is_event_s = is_event_s


BROKEN: Final = (UnreadReplyError, httpx.HTTPError, aiohttp.ClientError, OSError, RuntimeError)
"""What a call raises that gets no reply; RuntimeError: an event loop finds its file descriptor in use."""


class _Connector(aiohttp.TCPConnector):
    """Connects by host and port, and uses no connection on which something came unasked.

    aiohttp hands the loop a connected socket. If its TLS handshake is reset, uvloop closes the file
    descriptor twice, and so another connection's (aiohttp #10506, uvloop #645).
    """

    async def _wrap_create_connection(self, *args: Any, addr_infos: list[Any], **kwargs: Any) -> Any:
        host, port = addr_infos[0][4][:2]
        return await self._wrap_existing_connection(*args, host, port, **kwargs)

    async def _get(self, *args: Any) -> Any:
        while (kept := await super()._get(*args)) is not None:
            # A late second reply to an earlier request would be taken for the reply to this one.
            if not _fresh.get() and kept.protocol is not None and not kept.protocol.should_close:
                return kept
            kept.close()
        return None


def _open_client(**options: Any) -> Any:
    from openai import DefaultAioHttpClient  # noqa: PLC0415 - half a second, which only a call waits for

    class Client(DefaultAioHttpClient):
        def _init_transport(self, *args: Any, **kwargs: Any) -> Any:
            return _with_connector(super()._init_transport(*args, **kwargs))

        def _init_proxy_transport(self, *args: Any, **kwargs: Any) -> Any:
            return _with_connector(super()._init_proxy_transport(*args, **kwargs))

    return Client(**options)


def _with_connector(transport: Any) -> Any:
    most, seconds = transport.limits.max_connections, transport.limits.keepalive_expiry
    connector = _Connector(limit=most, keepalive_timeout=seconds, ssl=transport.ssl_context)
    transport.client = aiohttp.ClientSession(connector=connector)
    return transport


def _uses_proxies(base_url: str) -> bool:
    return not is_loopback(urlsplit(base_url).hostname or "")


def is_success(status: int) -> bool:
    return 200 <= status < 300


class Response(NamedTuple):
    """A reply; headers have names in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ApiConnection(NamedTuple):
    """A session with the options and addresses of calls; to be used and closed in one event loop."""

    session: aiohttp.ClientSession
    options: Mapping[str, Any]
    completions: str
    embeddings: str
    sdk: Any


def open_api(base_url: str, api_key: str, timeout_seconds: float, max_connections: int) -> ApiConnection:
    """Open an API; ValueError if a proxy of the environment cannot be used."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - as above

    http = _open_client(
        limits=httpx.Limits(max_connections=max_connections, keepalive_expiry=_KEEPALIVE_SECONDS),
        # The call has its own limit; only an address that does not answer fails sooner.
        timeout=httpx.Timeout(timeout_seconds, connect=min(10.0, timeout_seconds)),
        # A redirected POST would arrive as a GET, and send the key to an unconfigured address.
        follow_redirects=False,
        trust_env=_uses_proxies(base_url),
    )
    own = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
    client = AsyncOpenAI(
        api_key=api_key, base_url=base_url, http_client=http, default_headers=own, max_retries=0
    )
    given = {**client.auth_headers, **client.default_headers}
    # The SDK marks omitted headers with a sentinel.
    headers = {name.lower(): value for name, value in given.items() if isinstance(value, str)}
    base = httpx.URL(base_url)  # the SDK's versions differ in where they put the slash before a query string
    folder, mark, query = base.raw_path.partition(b"?")
    completions, embeddings = (
        base.copy_with(raw_path=folder.rstrip(b"/") + path + mark + query)
        for path in (b"/chat/completions", b"/embeddings")
    )
    transport = http._transport_for_url(base)  # noqa: SLF001 - a proxy's, or the one without
    proxy = transport.proxy
    options = {
        "headers": headers,
        "allow_redirects": False,
        "auto_decompress": False,
        "timeout": aiohttp.ClientTimeout(sock_connect=http.timeout.connect),
        "proxy": None if proxy is None else str(proxy.url),
        "proxy_auth": None if proxy is None or proxy.auth is None else aiohttp.BasicAuth(*proxy.auth),
        "proxy_headers": None if proxy is None else proxy.headers,
    }
    return ApiConnection(transport.client, options, str(completions), str(embeddings), client)


async def post(api: ApiConnection, content: bytes, request: ChatRequest, *, max_bytes: int) -> Response:
    """Send the body of a request; return the reply, of any status."""
    _fresh.set(request.fresh)
    url = api.embeddings if request.embeds else api.completions
    async with api.session.post(url, data=content, **api.options) as answer:
        if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise UnreadReplyError("the reply is compressed, which was not asked for")
        read = bytearray()  # not a list: there may be millions of parts
        async for part in answer.content.iter_any():
            read += part
            if len(read) > max_bytes:
                why = f"the reply is larger than {max_bytes} bytes, too large for a verdict"
                raise UnreadReplyError(why, is_event_s=is_success(answer.status))
        return Response(answer.status, answer.headers, bytes(read))


@dataclass(frozen=True, slots=True)
class ModelList:
    """An endpoint's list of models, and its `Date` header, unless the reply comes from a cache."""

    status: int
    names: tuple[str, ...] | None
    """None if the reply has no list: many gateways have none, and some keys may not read it."""
    date: str | None = None


async def list_models(base_url: str, api_key: str, *, timeout_seconds: float) -> ModelList:
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    async with (
        asyncio.timeout(timeout_seconds),
        aiohttp.ClientSession(trust_env=_uses_proxies(base_url)) as session,
        session.get(f"{base_url}/models", headers=headers, allow_redirects=False) as answer,
    ):
        body = await answer.content.read(4 * 1024 * 1024)
        date = None if "Age" in answer.headers else answer.headers.get("Date")
        return ModelList(answer.status, _names(body) if answer.status == 200 else None, date)


def _names(body: bytes) -> tuple[str, ...] | None:
    try:
        return tuple(str(one["id"]) for one in orjson.loads(body)["data"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


# The batch routes, by the SDK, whose overhead does not matter there

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
        from openai import APIStatusError, OpenAIError  # noqa: PLC0415 - as in `_open_client`

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
