"""Prices of a Program on a machine: time by op, timeline, memory need, energy, cost, elasticities."""
