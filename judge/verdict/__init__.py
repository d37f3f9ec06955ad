"""One task at one endpoint: prompt, reply, repair turns, price, cache."""
