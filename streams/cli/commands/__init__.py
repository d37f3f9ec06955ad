"""One module per command; heavy imports are inside the command that needs them."""
