"""DDR channels: timing as data, closed forms for random gathers, and an event-driven reference simulator."""
