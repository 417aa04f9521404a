"""Hypothesis profiles: `dev` looks for new failures, `thorough` for hours, `ci` gives the same answer each time."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dev", deadline=None, print_blob=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=10_000)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, max_examples=50, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
