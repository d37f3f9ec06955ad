"""Child processes for code that may not terminate."""
