"""One verb a file: what the doors ask for, each call one transaction.

Reads and writes storage; decides by matcher and lifecycle; talks to nobody.
"""
