"""Which endpoint is asked, when, and how often."""
