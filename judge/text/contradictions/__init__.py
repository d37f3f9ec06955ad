"""Whether two sentences say opposite or different things, where code can show it: numbers, units, dates, polarity, yes and no."""
