"""Frameworks: which of our schedules each has, within what limits, and what to type there; one file of data each."""
