"""Colours of one family differ for every kind of colour vision, and stand out from both backgrounds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from archmodel.report.html import palette

FAMILIES = {
    "phases": palette.PHASES,
    "resources": palette.RESOURCES,
    "tiers": palette.TIERS,
    "roles": palette.ROLES,
    "facts": {"calibrated": palette.CALIBRATED, "held out": palette.HELD_OUT},
}

# Machado, Oliveira, Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009, table 1
VISION = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array(  # of linear sRGB, IEC 61966-2-1
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a: str, b: str) -> float:
    """Of two colours, as WCAG 2 defines it."""
    dim, bright = sorted(float(XYZ[1] @ linear(colour)) for colour in (a, b))
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("family", FAMILIES)
def test_members_of_a_family_are_told_apart(family: str, vision: str) -> None:
    seen = {name: lab(VISION[vision] @ linear(colour)) for name, colour in FAMILIES[family].items()}
    near = {(a, b): float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(seen, 2)}
    assert {pair: distance for pair, distance in near.items() if distance < 12} == {}


@pytest.mark.parametrize("theme", palette.THEMES)
def test_colours_stand_out_from_the_paper(theme: str) -> None:
    paper = palette.THEMES[theme]["layout"]["paper_bgcolor"]
    every = {**palette.PHASES, **palette.RESOURCES, **palette.TIERS, **palette.ROLES}
    assert {name: colour for name, colour in every.items() if contrast(colour, paper) < 1.4} == {}


@pytest.mark.parametrize("theme", palette.THEMES)
def test_ink_is_readable(theme: str) -> None:
    layout = palette.THEMES[theme]["layout"]
    assert contrast(layout["font"]["color"], layout["paper_bgcolor"]) > 10


def test_a_name_has_one_colour_whatever_it_is() -> None:
    assert palette.colour("a new tier") == palette.colour("a new tier") in palette.SERIES
    assert palette.colour("memory") == palette.colour("hbm") == palette.of_path("system.node.gpu.hbm.bandwidth")
    assert palette.of_path("system.node.host.tiers.ssd.memory.read_iops") == palette.colour("ssd")
    assert palette.of_path("system.node.host.tiers.new.memory.bandwidth") == palette.colour("new")
    assert palette.of_streams(("scale_up", "scale_out")) == palette.of_path("system.node.nic.bandwidth")


def test_every_phase_and_stream_has_a_meaning() -> None:
    from typing import get_args

    from archmodel.program import Phase, Stream

    assert set(get_args(Phase)) <= set(palette.PHASES)
    assert set(get_args(Stream)) <= set(palette.RESOURCES)


def test_faint_keeps_the_hue() -> None:
    assert palette.faint("#0102ff", 0.5) == "rgba(1,2,255,0.5)"
