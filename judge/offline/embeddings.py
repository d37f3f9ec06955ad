"""Embeddings without a model: hashed word counts. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from judge.text.words import word_texts

DIMENSIONS: Final = 256


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """Return the word counts of each text, indexed by the word's checksum."""
    return [_vector(word_texts(text) or [text]) for text in texts]


def _vector(words: Sequence[str]) -> list[float]:
    counts = [0.0] * DIMENSIONS
    for word in words:
        counts[crc32(word.encode("utf-8", "surrogatepass")) % DIMENSIONS] += 1
    return counts
