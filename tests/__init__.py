"""A package, so that `tests.parts` is ours and not the `tests` that some library installs."""
