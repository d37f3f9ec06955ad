"""The Grafana dashboards, as Python; their JSON stands in `helm/files/dashboards/`."""
