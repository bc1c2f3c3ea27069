"""Fixtures that every test may ask for, and how properties are tried."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.parts.fixtures", "tests.parts.worlds"]

# How long an example takes says how loaded the machine is, and nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
