"""Events that come in several records, joined within bounds while their offsets are held."""
