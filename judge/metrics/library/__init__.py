"""Metrics that a team switches on by name, each a prompt of our own with evidence that code checks."""
