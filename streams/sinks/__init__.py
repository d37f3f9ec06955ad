"""Delivers verdicts and incidents from their topics to other systems; judging never waits for it."""
