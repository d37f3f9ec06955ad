"""A copy of results, their texts, alerts and labels in one SQLite file, to be read; the truth stays in Kafka."""
