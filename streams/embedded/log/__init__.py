"""The broker's storage: topics, partitions and producer state."""
