"""The metric coverage (0-5): the answer against a reference."""
