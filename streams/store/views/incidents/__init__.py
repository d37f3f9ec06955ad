"""Groups alerts into incidents and finds causes: both are pure; `report` reads the store."""
