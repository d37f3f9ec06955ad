"""Words for people and terminals: printable text and reasons."""
