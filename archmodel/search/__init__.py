"""Planners: where every embedding table goes, how it is cut, and a proof of how good that is."""
