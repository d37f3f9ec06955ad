"""A client with scripted replies, for tests and for trying a metric without an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from judge.chat import ChatReply, ChatRequest
from schemas import Usage

Line = str | ChatReply | Exception


class ScriptedChat:
    """Returns its lines in order and records the requests.

    Args:
        lines: Each a reply's text, a reply, or an error to raise; or a function that returns one for a
            request.
        endpoint: The endpoint's name.
        model: The model's name.
    """

    def __init__(
        self,
        lines: Iterable[Line] | Callable[[ChatRequest], Line],
        *,
        endpoint: str = "scripted",
        model: str = "scripted-1",
    ) -> None:
        self._say = lines if callable(lines) else None
        self._lines = iter(()) if callable(lines) else iter(lines)
        self._endpoint = endpoint
        self._model = model
        self.requests: list[ChatRequest] = []
        self.closed = False

    @property
    def endpoint(self) -> str:
        """The endpoint's name."""
        return self._endpoint

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the next line.

        Raises:
            Exception: The line, if it is one.
            LookupError: No line is left.
        """
        self.requests.append(request)
        if self._say is not None:
            line = self._say(request)
        else:
            try:
                line = next(self._lines)
            except StopIteration:
                raise LookupError(
                    f"the script of {self._endpoint} has no line {len(self.requests)}"
                ) from None
        if isinstance(line, Exception):
            raise line
        if isinstance(line, ChatReply):
            return line
        return ChatReply(text=line, model=self._model, usage=Usage(), seconds=0.0)

    async def close(self) -> None:
        """Record the call."""
        self.closed = True
