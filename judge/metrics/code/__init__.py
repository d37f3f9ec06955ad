"""Metrics that code decides: no judge is asked, nothing is paid."""
