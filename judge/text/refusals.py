"""Detect sentences that refuse or announce an answer and state nothing."""

from __future__ import annotations

import re

from judge.text.overlap import Vocabulary, own_words

_BEGINNING = re.compile(
    r"\W*(?:(?:i['\u2019]m|i am) (?:sorry|afraid|not sure|unable)|sorry|unfortunately,? i|i (?:can['\u2019]?t|cannot|could not|couldn['\u2019]?t|don['\u2019]?t|do"  # noqa: E501
    r" not|have no|am unable)|as an? (?:ai|language model)|let['\u2019]?s\b|let (?:us|me)\b|below,? i\b|no (?:answer|comment|idea)|n/?a\b|none\b|unknown\b)",  # noqa: E501
    re.IGNORECASE,
)
_USUAL_WORDS = """
    able advice afraid answer approach consider explain first following let point process reason solution step
    think thought
    apologies apologise apologize assist ask available certain comment context data detail
    enough find give help idea information know language mention model not page provide question request
    respond
    response say sorry sufficient sure tell text topic unable unfortunately unknown
"""
_USUAL = Vocabulary(_USUAL_WORDS.split())


def is_refusal(text: str, known: Vocabulary) -> bool:
    """Return whether a text starts like a refusal and adds only known words.

    Args:
        text: A sentence or two.
        known: The question's words.
    """
    return _BEGINNING.match(text) is not None and all(word.text in _USUAL for word in own_words(text, known))
