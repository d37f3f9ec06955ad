"""Which topics there are, who uses them, and how they are made and checked."""
