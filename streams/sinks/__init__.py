"""Delivers verdicts from the results topic to other systems; judging never waits for it."""
