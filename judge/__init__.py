"""One answer in, one verdict out. Knows nothing of Kafka, Faust or Prometheus."""
