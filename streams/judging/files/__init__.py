"""Judge a file without Kafka: events in; results, a summary and a comparison out."""
