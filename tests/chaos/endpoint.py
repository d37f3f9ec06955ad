"""A scripted judge as a process: `python -m tests.chaos.endpoint [PORT]`. It prints its port. `POST /mode`
changes its replies. `mode` is "answer", "hang" (accepts requests without an answer), "refuse" (503) or
"babble" (replies without a verdict). `latency_seconds` precedes each reply. Events whose number is a multiple
of `hang_every` are never answered. `once` has statuses for the next requests. `score` is its score. After
`limit` answers it waits for a change.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

from aiohttp import web

from tests.judge.fake_openai import completed

_NUMBER = re.compile(r"How is number (\d+) done")
_ASKED = re.compile(r"Say exactly (\{.*\})")
"""A reply that a prompt may request instead of a score."""


class ScriptedJudge:
    def __init__(self) -> None:
        self.mode = "answer"
        self.latency_seconds = 0.02
        self.hang_every = 0
        self.once: list[int] = []
        self.score = 3
        self.limit: int | None = None
        self._changed = asyncio.Event()
        self.answered = 0
        self.in_hand = 0

    async def change(self, request: web.Request) -> web.Response:
        """Change its replies; returns the counts of answered calls and calls in flight."""
        wanted: dict[str, Any] = await request.json()
        self.once += wanted.pop("once", [])
        vars(self).update(wanted)
        self._changed.set()
        self._changed = asyncio.Event()
        return web.json_response({"answered": self.answered, "in_hand": self.in_hand})

    async def complete(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        self.in_hand += 1
        try:
            return await self._answer(body)
        finally:
            self.in_hand -= 1

    async def _answer(self, body: dict[str, Any]) -> web.Response:
        event = _NUMBER.search(json.dumps(body["messages"]))
        hangs = event is not None and self.hang_every and int(event[1]) % self.hang_every == 0
        if hangs or self.mode == "hang":
            await asyncio.sleep(3600)
        await asyncio.sleep(self.latency_seconds)
        if self.mode == "refuse":
            return web.json_response({"error": {"message": "overloaded"}}, status=503)
        if self.once:
            return web.json_response({"error": {"message": "no"}}, status=self.once.pop())
        while self.limit is not None and self.answered >= self.limit:
            await self._changed.wait()
        self.answered += 1
        asked = _ASKED.search(body["messages"][0]["content"])
        plain = json.dumps({"score": self.score, "justification": "plain"})
        reply = plain if asked is None else asked[1]
        return completed(reply if self.mode == "answer" else "Certainly!", model=body["model"])


async def main(port: int) -> None:
    judge = ScriptedJudge()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", judge.complete)
    app.router.add_post("/mode", judge.change)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 - how the test learns of it
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
