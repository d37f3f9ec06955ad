"""From many alerts to one incident and its causes: grouping and causes are pure, `report` reads the store."""
