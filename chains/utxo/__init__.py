"""Bitcoin and the chains that are made like it: networks as data, addresses and scripts, raw blocks."""
