"""Collectives: what they move over which wire, and how long that takes on a topology."""

from archmodel.collectives.all_to_all import all_to_all_v
from archmodel.collectives.estimate import estimate
from archmodel.collectives.kinds import Algorithm, CollectiveError, Fidelity, Kind
from archmodel.collectives.result import CollectiveResult
from archmodel.collectives.volume import all_to_all_bytes, sent_bytes

__all__ = [
    "Algorithm",
    "CollectiveError",
    "CollectiveResult",
    "Fidelity",
    "Kind",
    "all_to_all_bytes",
    "all_to_all_v",
    "estimate",
    "sent_bytes",
]
