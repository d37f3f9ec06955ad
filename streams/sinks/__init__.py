"""Delivers verdicts to other systems from the results topic, beside judging, which never waits for it."""
