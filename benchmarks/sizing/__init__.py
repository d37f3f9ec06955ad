"""From traffic, rates, latency and prices to partitions, workers, tokens and money (`docs/scaling.md`)."""
