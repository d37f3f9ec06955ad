"""The files that `judgestream init` writes from five answers: settings, compose file, sample event. Pure."""
