"""Formulas with their sources: estimates, intervals, detectors. Pure."""
