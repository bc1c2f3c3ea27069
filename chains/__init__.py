"""The facts: from a node to an ordered stream of chain facts.

Reads nodes, writes nothing. Never knows Kafka, SQL or orders.
"""
