"""The Grafana dashboards, as Python: `python -m dashboards --write` makes the JSON in `helm/files/dashboards/`."""
