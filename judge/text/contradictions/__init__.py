"""Whether two sentences contradict each other, where code can show it: numbers, polarity, yes and no."""
