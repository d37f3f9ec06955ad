"""Assembles one process, runs it and ends it."""
