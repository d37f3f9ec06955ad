"""Find sensitive data in a text. Pure."""
