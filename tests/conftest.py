"""Settings that every test shares."""

from hypothesis import HealthCheck, settings

# A slow machine is no fault of the code. The parent is the profile in force: in CI it always draws the same.
settings.register_profile("house", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
