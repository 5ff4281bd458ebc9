"""Fits of constants to measurements: fabrics, GPUs."""
