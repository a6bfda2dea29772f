"""The simulator: how long a schedule takes on a cluster, and what bounds it."""
