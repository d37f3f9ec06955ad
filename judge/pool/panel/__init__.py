"""Panels: several verdicts on one answer, and the one to publish."""
