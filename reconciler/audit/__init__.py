"""A second look at what was decided: the journal's chains. Reads storage; writes nothing of its own."""
