"""What the broker stores: topics, partitions and producer state."""
