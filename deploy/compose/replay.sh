#!/bin/sh
# Puts events on the events topic: the lines of /events.jsonl if it holds any, else made-up ones without an end.
set -eu
if [ -s /events.jsonl ]; then
  exec judgestream produce /events.jsonl --rate "$EVENTS_PER_SECOND" --config /etc/judgestream/config.yaml
fi
python3 /etc/judgestream/demo_events.py "$EVENTS_PER_SECOND" | judgestream produce - --config /etc/judgestream/config.yaml
