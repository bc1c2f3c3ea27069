"""The words of the service: values, messages and their wire form.

Reads and writes nothing. Every other room imports from here; this room imports none of them.
"""
