"""Every file of the catalogue loads by its kind, and every number in it says where it comes from."""

import re
from typing import Annotated

import pytest
from pydantic import RootModel

from archmodel import catalogue, source
from archmodel.components.device import DEVICES, Device
from archmodel.components.endpoint import ENDPOINTS, Endpoint
from archmodel.design import load
from archmodel.errors import DesignError
from archmodel.estimate.estimate import estimate
from archmodel.memory.access import AccessFamily
from archmodel.memory.dram.channel import DRAM
from archmodel.memory.nmp import NMP
from archmodel.memory.nmp.host import HOST
from archmodel.memory.tier import MEMORIES
from archmodel.network import SCALE_OUT, SCALE_UP
from archmodel.parallel.plan import Plan, TablesPlan
from archmodel.source import Provenance
from archmodel.system import System
from archmodel.workloads.recommendation import Workload, WorkloadFamily

ENTRIES = catalogue.entries()
DESIGNS = [entry.path for entry in ENTRIES if entry.kind == "design"]
PARTS = [entry.path for entry in ENTRIES if entry.kind != "design"]
REQUIRED = {
    "mlperf_dcnv2_dgx_h100.yaml",
    "mlperf_dcnv2_dgx_a100.yaml",
    "mlperf_dcnv2_eos_8x8.yaml",
    "mlperf_dcnv2_eos_16x8.yaml",
    "mlperf_dlrm_v1_dgx_a100.yaml",
    "mlperf_dlrm_v1_dgx_h100.yaml",
    "neo_a_zionex_16x8.yaml",
    "neo_f_zionex_16x8.yaml",
    *(f"systems/{name}.yaml" for name in ("dgx_a100", "dgx_h100", "zionex", "dgx1_v100", "dgx2_v100")),
}


class AnyDevice(RootModel[Annotated[Device, DEVICES.field(default="gpu")]]):
    pass


class AnyEndpoint(RootModel[Annotated[Endpoint, ENDPOINTS.field()]]):
    pass


class AnyWorkload(RootModel[Annotated[Workload, WorkloadFamily.field()]]):
    pass


def tree_of(path):
    return source.read(catalogue.find(path), catalogue=catalogue.directory())


def test_the_catalogue_has_what_the_manual_names():
    assert REQUIRED - {entry.path for entry in ENTRIES} == set()


@pytest.mark.parametrize("path", DESIGNS)
def test_a_design_loads_and_its_plan_covers_every_table(path):
    design = load(catalogue.find(path))
    assert set(design.placement.table.tolist()) == set(range(len(design.workload.table_arrays)))


@pytest.mark.parametrize("path", DESIGNS)
def test_a_design_fits_its_machine(path):
    answer = estimate(load(catalogue.find(path)))
    assert [tier for tier, need in answer.memory.items() if not need.fits] == []
    assert answer.throughput > 0


@pytest.mark.parametrize("path", PARTS)
def test_a_part_loads_by_itself(path):
    tree = tree_of(path)
    folder = path.partition("/")[0]
    if folder == "fabrics":
        kinds = SCALE_UP if tree["kind"] in SCALE_UP.kinds() else SCALE_OUT
        model = source.validate(kinds.resolve(tree["kind"]), tree)
    elif folder == "memories":
        kinds = next(family for family in (DRAM, NMP, HOST, MEMORIES) if tree["kind"] in family.kinds())
        model = source.validate(kinds.resolve(tree["kind"]), tree)
    elif folder == "access":
        model = source.validate(AccessFamily.resolve(tree["kind"]), tree)
    elif folder == "plans":
        model = source.validate(TablesPlan if path.endswith("_tables.yaml") else Plan, tree)
    else:
        whole = {"devices": AnyDevice, "endpoints": AnyEndpoint, "systems": System, "workloads": AnyWorkload}
        model = source.validate(whole[folder], tree)
    assert model is not None


NUMBER = re.compile(r"[<>=\s]*[-+]?\.?[0-9]")
WORDS = {"name", "source", "note", "status", "fitted_on", "calibrated", "kind"}


def numbers(node, path=""):
    """Paths of everything in `node` that is, or starts with, a number."""
    if isinstance(node, dict):
        for key, item in node.items():
            if key not in WORDS:
                yield from numbers(item, source.join(path, key))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from numbers(item, source.join(path, index))
    elif not isinstance(node, bool) and (isinstance(node, int | float) or NUMBER.match(str(node))):
        yield path


@pytest.mark.parametrize("path", [*DESIGNS, *PARTS])
def test_every_number_has_a_birth_certificate(path):
    tree = tree_of(path)
    origins = source.provenance(tree)
    bare = []
    for at in numbers(tree):
        origin = origins.get(at.removesuffix(".value"), origins.get(at, Provenance()))
        if not origin.source:
            bare.append(f"{at} ({origin.file}:{origin.line})")
    assert bare == []


def test_a_file_with_a_number_of_unknown_origin_would_be_caught(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("a: {b: 1 GB, source: s}\nc: 3\nd: {value: 2 ms, status: assumed}\n")
    tree = source.read(file)
    origins = source.provenance(tree)
    assert sorted(numbers(tree)) == ["a.b", "c", "d.value"]
    assert [origins[at].source for at in ("a.b", "c", "d")] == ["s", None, None]


@pytest.mark.parametrize("path", DESIGNS)
def test_published_figures_name_their_source(path):
    published = tree_of(path).get("published", {})
    for figure in published.values():
        assert figure["source"]
        if "MLPerf" in figure["source"]:
            assert "derived from MLPerf Training result logs, not verified by MLCommons" in figure["source"]


def test_designs_of_the_catalogue_are_found_from_anywhere(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("use: mlperf_dcnv2_dgx_h100.yaml\nname: mine\nsystem: {nodes: 2}\n")
    with pytest.raises(DesignError):
        source.read(file)
    tree = source.read(file, catalogue=catalogue.directory())
    assert tree["system"]["nodes"] == 2
    assert tree["system"]["node"]["gpus"] == 8
