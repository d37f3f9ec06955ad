"""The agents: each reads one kind of topic and acknowledges a record when what follows from it is written."""
