"""Which attribute means what: one table a family of instrumentations, and the order of the tables."""
