"""Memory: tiers, and how the rows of embedding tables are accessed."""
