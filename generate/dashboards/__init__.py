"""The Grafana dashboards in Python; their JSON is in `helm/files/dashboards/`."""
