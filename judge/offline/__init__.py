"""The offline judge: rules behind an OpenAI-compatible address on loopback, for trying and testing without a model."""

from __future__ import annotations

OFFLINE_MODEL = "offline-rules-1"
"""The name that every result of the offline judge carries, so that nobody takes it for a language model's."""
