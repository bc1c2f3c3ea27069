"""Fixtures that every test may ask for."""

pytest_plugins = ["tests.parts.fixtures", "tests.parts.worlds"]
