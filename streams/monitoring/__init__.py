"""Detects drops of quality in results, and raises alerts."""
