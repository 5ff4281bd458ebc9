"""What is wrong with a network."""

from __future__ import annotations

from archmodel.errors import ArchmodelError


class TopologyError(ArchmodelError, ValueError):
    """Ranks, nodes and fabrics that do not go together; the message says what would."""
