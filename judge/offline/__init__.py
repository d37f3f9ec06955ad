"""The offline judge: rules behind an OpenAI-compatible address on loopback, for trials without a model."""
