"""Records whose schema is in a registry: Confluent's wire forms, read as the JSON that they stand for."""
