"""The metric relevance (1-5): comparison of claims with the pages they cite."""
