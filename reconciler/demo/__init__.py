"""The demo: a small shop, its chains and customers, and the real service between them.

Makes chains (scripted ones, or anvil; litecoind where it is), settings and a database in a temporary folder, runs the same
parts as `reconciler run`, plays the shop and its customers, and shows what comes out. Reads
`payment-events` and `payment-exceptions` as a shop would; decides nothing by itself. No other room
imports it, and nothing of it is needed by a real service.
"""
