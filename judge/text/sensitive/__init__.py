"""Forms of data that must not leave the process: where they stand in a text. Pure."""
