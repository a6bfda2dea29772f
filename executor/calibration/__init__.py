"""Calibration: what this machine's kernels, messages, collectives and glue take, as a cluster file for the simulator.

All ranks measure at once, as they share clock and memory. Everything is measured in turn, round after round, so that
each finds the caches as others left them, and what disturbs the machine for a while disturbs all alike.
"""
