"""What can go wrong that is worth a name."""


class BadInput(ValueError):
    """What a user gave and cannot be run; one line says the rule, the value and where."""


class WrongResult(ValueError):
    """Ranks that should hold the same result, and do not."""
