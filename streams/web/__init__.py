"""What every HTTP port of ours has: who gets in, by which headers a browser is bound, and how it listens."""
