"""From traffic, rates, latency and prices to partitions, workers, tokens and money: what `docs/scaling.md` is made from."""
