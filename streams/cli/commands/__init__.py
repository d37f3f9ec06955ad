"""One module a command; heavy imports stand inside the command that needs them."""
