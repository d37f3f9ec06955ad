"""Metrics from prompt packs: a team's own prompts and score range."""
