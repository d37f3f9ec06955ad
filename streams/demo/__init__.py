"""The whole product on one machine: embedded broker, judge, worker, events and a view of what happens."""
