"""The only room that knows SQLAlchemy: tables, types, the unit of work, bulk reads and writes.

Reads and writes the database; decides nothing.
"""
