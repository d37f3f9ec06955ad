"""Exports verdicts for other tools: CSV, JSON lines, Parquet by day, and SQL views with weights."""
