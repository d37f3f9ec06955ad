"""Verdicts as files for other tools: CSV, JSON lines and Parquet by day, with views that know their weights."""
