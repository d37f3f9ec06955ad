"""Metric library: metrics enabled by name, each with a prompt and evidence that code checks."""
