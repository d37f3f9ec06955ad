"""One module per section of the settings."""
