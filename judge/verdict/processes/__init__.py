"""Code that may not terminate, in separate processes."""
