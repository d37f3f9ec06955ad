"""Verdicts as files for other tools: CSV, JSON lines, Parquet by day, and views that use the weights."""
