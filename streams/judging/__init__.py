"""From a task to a result, within the budget."""
