"""The topics: who uses them, how they are created and checked."""
