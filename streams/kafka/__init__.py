"""The only way to a broker."""
