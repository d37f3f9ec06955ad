"""Compared programs: each receives a plan as JSON and prints its measurements as JSON."""
