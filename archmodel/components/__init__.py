"""Compute devices: what they can do, how long it takes, and the base that every part of a design shares."""

from archmodel.components.accelerator import Accelerator
from archmodel.components.breakdown import Breakdown
from archmodel.components.cpu import Cpu
from archmodel.components.device import DEVICES, Device
from archmodel.components.gpu import Gpu

__all__ = ["DEVICES", "Accelerator", "Breakdown", "Cpu", "Device", "Gpu"]
