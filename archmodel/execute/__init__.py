"""Executor: runs a Program on simulated ranks in numpy, counts what it does, and checks it against a reference."""
