"""The executor on GPUs: arrays by CuPy, kernels of ours, streams as in the schedule, and three transports.

Nothing here imports CuPy before it is asked to run: what can be tested without a GPU is.
"""
