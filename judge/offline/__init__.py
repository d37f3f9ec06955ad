"""The offline judge: rules behind an OpenAI-compatible loopback address, for trials without a model."""
