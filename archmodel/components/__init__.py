"""Compute devices: what they can do, how long it takes, and the base that every part of a design shares.

Kinds that few designs use are imported when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from archmodel.components.breakdown import Breakdown
from archmodel.components.device import DEVICES, Device
from archmodel.components.gpu import Gpu

if TYPE_CHECKING:
    from archmodel.components.accelerator import Accelerator
    from archmodel.components.cpu import Cpu

__all__ = ["DEVICES", "Accelerator", "Breakdown", "Cpu", "Device", "Gpu"]
_HOMES = {"Accelerator": "accelerator", "Cpu": "cpu"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
