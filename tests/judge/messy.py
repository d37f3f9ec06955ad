"""A Hypothesis strategy for texts with characters that break parsers."""

# ruff: noqa: RUF001 - the alphabet contains lookalike characters
from __future__ import annotations

from hypothesis import strategies as st

# A small alphabet, so that random texts often combine its characters.
MESSY = st.text(
    st.sampled_from(
            "aAbé1 "
            "5.,'’\"“-–\n\t\r\x00\x85\u00a0\u00ad\u200b\u202e\u0301\u0323\ufb01½北ー서각İßΣ\ud800\udc00🙂[]"
        ),
    max_size=40,
)  # fmt: skip
