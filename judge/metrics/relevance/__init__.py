"""The metric relevance (1-5): claims against the pages they cite."""
