"""OTLP requests, Protobuf or JSON, read into spans and log records."""
