"""How an answer is scored: from texts and a reply to an outcome. Pure."""
