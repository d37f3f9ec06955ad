"""How answers name their sources, and how contexts name theirs."""
