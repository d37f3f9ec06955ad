"""What travels between the parts: one module a topic, frozen models, no behaviour."""
