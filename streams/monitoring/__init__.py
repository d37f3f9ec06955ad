"""Detects drops: from results to estimates and alerts."""
