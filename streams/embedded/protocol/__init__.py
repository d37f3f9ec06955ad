"""The Kafka wire protocol: frames, batches, codes, requests and the server."""
