"""The door between one chain and the log.

Reads nodes (through `chains.follow`), `watchlist.<family>` and `requests.<chain>`; writes
`transfers.<chain>`, one transaction a step. Keeps no state of its own: the log is its memory.
"""
