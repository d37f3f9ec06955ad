"""How many calls an endpoint is sent: concurrency, requests and tokens a minute, turns."""
