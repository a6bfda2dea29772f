"""How much more the property tests draw at night: `make nightly`."""

import os

MORE = 10 if os.environ.get("NIGHTLY") else 1  # 2,000 examples in place of 200
