"""Devices of the catalogue, by the name of their file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import pytest
from pydantic import RootModel

from archmodel import catalogue, source
from archmodel.components import DEVICES, Device


class AnyDevice(RootModel[Annotated[Device, DEVICES.field(default="gpu")]]):
    pass


@cache
def load(name: str) -> Any:
    tree = source.read(catalogue.find(f"devices/{name}.yaml"), catalogue=catalogue.directory())
    return source.validate(AnyDevice, tree).root


@pytest.fixture
def device() -> Callable[[str], Any]:
    """device("a100_sxm_80gb"): the device of that file."""
    return load
