"""Memory: tiers, and how the rows of embedding tables are accessed."""

import archmodel.components  # noqa: F401  components hold tiers and share their base: whichever is asked for first
