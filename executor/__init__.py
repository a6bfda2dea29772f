"""Run a schedule for real: in one process or one rank a process, with the same numbers as dense attention."""
