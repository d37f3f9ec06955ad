"""A judge with a constant reply, except for the event's name.

    python -m benchmarks.instant_judge PLAN      with `reply` and `latency_seconds` in the plan


It implements just enough HTTP/1.1 for persistent connections, with little CPU time, so that the client is
measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast

import uvloop

MARK = b"Sheet "
"""Precedes the event's name in a request."""
PLACEHOLDER = "placehol"
"""Replaced by the event's name in the reply; both have the same length."""


class InstantJudge(asyncio.Protocol):
    """One connection.

    Args:
        response: The complete response to every request.
        latency_seconds: Delay of the response.
    """

    def __init__(self, response: bytes, latency_seconds: float) -> None:
        self._response = response
        self._latency_seconds = latency_seconds
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        # uvloop's transports are not derived from asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            whole = end + 4 + _length(bytes(self._buffer[:end]).lower())
            if len(self._buffer) < whole:
                return
            place = self._buffer.find(MARK, end) + len(MARK)
            name = bytes(self._buffer[place : place + len(PLACEHOLDER)])
            del self._buffer[:whole]
            if self._latency_seconds:
                asyncio.get_running_loop().call_later(self._latency_seconds, self._answer, name)
            else:
                self._answer(name)

    def _answer(self, name: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._response.replace(PLACEHOLDER.encode(), name))


def _length(head: bytes) -> int:
    start = head.find(b"\r\ncontent-length:")
    if start < 0:
        return 0
    return int(head[start + 17 :].split(b"\r\n", 1)[0])


def response_of(content: str) -> bytes:
    """Return a chat completion with this text."""
    completion = {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1,
        "model": "instant-1",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content, "refusal": None},
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100},
    }
    body = json.dumps(completion).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _serve(response: bytes, latency_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: InstantJudge(response, latency_seconds), "127.0.0.1", 0, backlog=1024
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    uvloop.run(_serve(response_of(plan["reply"]), plan["latency_seconds"]))
