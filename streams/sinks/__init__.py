"""Takes verdicts to where teams already look, from the results' topic and beside judging, which never waits for it."""
