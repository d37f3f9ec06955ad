"""The port against clients that hold connections, name foreign hosts or send no HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams.web import connections, listening
from streams.web.hosts import is_own_host
from tests.streams.worker.port.test_server import served

PROBE = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
SECONDS = 20.0


@contextlib.asynccontextmanager
async def served_port(**options: Any) -> AsyncIterator[int]:
    async with served(allowed_hosts=("page.example.com", "*.pages.example.com"), **options) as url:
        yield int(url.rpartition(":")[2])


async def sent(port: int, data: bytes) -> bytes:
    """Send data; return all bytes until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(SECONDS):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def status_of(port: int, target: bytes, host: bytes = b"a") -> bytes:
    answer = await sent(port, b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, host))
    return answer.split(b" ", 2)[1]


async def test_probes_are_answered_while_others_hold_every_connection() -> None:
    """The oldest connection without a request is closed for a new one, so probes are answered."""
    async with served_port() as port:
        held = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * connections.MAX_CONNECTIONS)
        ]
        for _, writer in held[::2]:
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX-")  # incomplete headers
        for _ in range(20):
            assert (await sent(port, PROBE)).startswith(b"HTTP/1.1 200")
        for _, writer in held:
            writer.close()


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: "])
async def test_an_incomplete_request_is_closed_at_the_timeout(begun: bytes) -> None:
    """A connection without a complete request is closed at the timeout."""
    async with served_port(request_seconds=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        ending = time.monotonic() + SECONDS
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < ending and not reader.at_eof():
                writer.write(b"x" if begun else b"")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await reader.read(1)
        assert time.monotonic() < ending
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
async def test_an_invalid_request_gets_a_bare_error(data: bytes) -> None:
    """An invalid request gets security headers, and neither the server's version nor its own content."""
    async with served_port() as port:
        answer = await sent(port, data)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
        assert b"X-Content-Type-Options: nosniff" in head
        assert b"default-src 'none'" in head
        assert b"aiohttp" not in answer
        assert b"Python" not in answer
        assert body.strip().isdigit()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"evil.example.net", b"421"),
        (b"127.0.0.1.evil.example.net", b"421"),
        (b"localhost", b"200"),
        (b"127.0.0.1:8080", b"200"),
        (b"page.example.com", b"200"),
    ],
)
async def test_a_foreign_host_is_refused(host: bytes, status: bytes) -> None:
    """A foreign Host is refused, against DNS rebinding; probes accept each host."""
    async with served_port() as port:
        for path in (b"/", b"/status.json", b"/metrics"):
            assert await status_of(port, path, host) == status
        assert await status_of(port, b"/healthz", host) == b"200"


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://evil.example.net/", b"421"),
        (b"http://127.0.0.1@evil.example.net/", b"421"),
        (b"https://evil.example.net?/", b"421"),
        (b"ftp://localhost/", b"421"),
        (b"http://localhost:80/", b"200"),
        (b"http://page.example.com/", b"200"),
    ],
)
async def test_an_absolute_target_overrides_the_host(target: bytes, status: bytes) -> None:
    async with served_port() as port:
        assert await status_of(port, target, b"localhost") == status


async def test_a_page_for_its_own_machine_answers_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page limited to the own machine refuses other addresses; metrics and probes do not."""
    async with served_port(near_page=True) as port:
        assert [await status_of(port, path) for path in (b"/", b"/status.json")] == [b"200", b"200"]
        monkeypatch.setattr(listening, "is_loopback", lambda _: False)
        assert [await status_of(port, path) for path in (b"/", b"/status.json")] == [b"403", b"403"]
        assert [await status_of(port, path) for path in (b"/metrics", b"/healthz")] == [b"200", b"200"]


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        (["worker"], True),
        (["worker:8080"], True),
        (["localhost."], True),
        (["10.1.2.3:8080"], True),
        (["[::1]:8080"], True),
        (["judgestream.monitoring.svc:8080"], True),
        (["judgestream.monitoring.svc.cluster.local"], True),
        (["PAGE.example.com:443"], True),
        (["a.pages.example.com"], True),
        (["pages.example.com"], False),
        (["evilpages.example.com"], False),
        (["example.net"], False),
        (["svc.example.net"], False),
        (["127.0.0.1.example.net"], False),
        (["127.0.0.1@example.net"], False),
        (["[::1"], False),
        (["worker:80:80"], False),
        ([""], False),
        ([], False),
        (["worker", "example.net"], False),
        (["a" * 400], False),
    ],
)
def test_own_hosts_are_recognized(headers: list[str], is_own: bool) -> None:
    """Addresses, names without a dot, private domains and configured hosts are own hosts."""
    assert is_own_host(headers, ("page.example.com", "*.pages.example.com")) is is_own
