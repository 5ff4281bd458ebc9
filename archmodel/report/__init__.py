"""Estimates for people and for other programs: terminal tables, one JSON object, a Perfetto trace, explanations."""
