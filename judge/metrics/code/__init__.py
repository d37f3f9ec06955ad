"""Metrics that code decides: no judge is used, nothing is paid."""
