"""The offline judge: rules behind an OpenAI-compatible address on loopback, for trying and testing without a model."""
