"""One module per group of commands; heavy imports are inside the command that needs them."""
