"""Sweeps: one design over many values of some of its fields, as one table."""
