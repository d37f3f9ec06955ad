"""The settings: a frozen tree from one YAML file and the environment, validated as a whole at start."""
