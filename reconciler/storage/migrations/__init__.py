"""How the tables came to be what they are: one revision a change, run by `reconciler migrate`."""
