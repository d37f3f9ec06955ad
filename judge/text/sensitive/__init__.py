"""Where sensitive data is in a text. Pure."""
