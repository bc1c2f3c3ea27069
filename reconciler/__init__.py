"""The meaning: what the facts say about orders, and the processes that carry it."""
