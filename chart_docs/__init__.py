"""Makes the table of values in the Helm chart's README from the comments in its values.yaml."""
