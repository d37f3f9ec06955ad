"""The metric coverage (0-5): comparison of the answer with a reference."""
