"""One section of the settings a module."""
