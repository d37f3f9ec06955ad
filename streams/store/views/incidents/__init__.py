"""From many alerts to one incident and what explains it: grouping and causes are pure, `report` reads the store."""
