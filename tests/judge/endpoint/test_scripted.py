from __future__ import annotations

import pytest

from judge.chat import ChatMessage, ChatReply, ChatRequest
from judge.endpoint.scripted import ScriptedChat
from judge.errors import JudgeUnavailableError
from schemas import Usage

ASK = ChatRequest(messages=(ChatMessage("user", "hello"),))


async def test_lines_are_given_in_order() -> None:
    """Texts, replies and errors are given in order; requests are recorded; an exhausted script raises
    LookupError.
    """
    whole = ChatReply(text="b", model="m", usage=Usage(input_tokens=1), seconds=2.0)
    chat = ScriptedChat(["a", whole, JudgeUnavailableError("down")])
    assert (await chat.complete(ASK)).text == "a"
    assert await chat.complete(ASK) is whole
    with pytest.raises(JudgeUnavailableError, match="down"):
        await chat.complete(ASK)
    with pytest.raises(LookupError, match="no line 4"):
        await chat.complete(ASK)
    assert chat.requests == [ASK] * 4
    await chat.close()
    assert chat.closed


async def test_a_function_can_answer() -> None:
    """A function gets the request and returns the reply."""
    chat = ScriptedChat(lambda request: request.messages[0].content.upper(), endpoint="e", model="m")
    reply = await chat.complete(ASK)
    assert (reply.text, reply.model, chat.endpoint, chat.model) == ("HELLO", "m", "e", "m")
