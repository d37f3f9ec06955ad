"""The examples, run as programs."""
