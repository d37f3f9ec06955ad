"""Judges a stretch of the past again, beside the live stream and never mixed with it."""
