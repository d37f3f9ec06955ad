"""Citations in answers, and names of pages in contexts."""
