"""Settings that every test shares."""

import signal

from hypothesis import HealthCheck, settings

# A slow machine is no fault of the code. The parent is the profile in force: in CI it always draws the same.
settings.register_profile("house", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# A shell in the background hands on that interrupts are ignored; what the tests start must not inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
