import importlib.metadata
import json
import warnings
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from archmodel.components import base
from archmodel.components.base import Component, Family, UnknownKindError, fields
from archmodel.quantities import Count, PositiveBandwidth, Seconds


class Device(Component):
    pass


class Gpu(Device):
    kind: Literal["gpu"] = "gpu"
    bandwidth: PositiveBandwidth = Field(description="of its memory, per direction")
    launch: Seconds = 0.0
    parts: Count = 1


class Cpu(Device):
    kind: Literal["cpu"] = "cpu"
    cores: Count


@pytest.fixture
def family():
    devices: Family[Device] = Family("test device")
    devices.register(Gpu)
    devices.register(Cpu)
    yield devices
    del Family.registry["test device"]


@pytest.fixture
def node(family):
    class Node(Component):
        gpu: Annotated[Device, family.field(default="gpu")]
        others: list[Annotated[Device, family.field()]] = Field(default_factory=list)
        spare: Annotated[Device, family.field()] | None = None

    return Node


def test_components_are_frozen_and_closed():
    gpu = Gpu(bandwidth="2039 GB/s", source="datasheet", status="datasheet")
    with pytest.raises(ValidationError, match="frozen"):
        gpu.launch = 1.0
    with pytest.raises(ValidationError, match="Extra inputs"):
        Gpu(bandwidth=1.0, bandwith=2.0)
    with pytest.raises(ValidationError):
        Gpu(bandwidth=1.0, status="guessed")


def test_a_field_reads_the_kind_that_the_mapping_names(node):
    read = node.model_validate({"gpu": {"bandwidth": "1 TB/s"}, "others": [{"kind": "cpu", "cores": 4}]})
    assert read.gpu == Gpu(bandwidth=1e12)
    assert read.others == [Cpu(cores=4)]


def test_instances_pass_through(node):
    gpu = Gpu(bandwidth=1.0)
    assert node(gpu=gpu, spare=gpu).spare is gpu


def test_kinds_registered_later_are_read(family, node):
    @family.register
    class Npu(Device):
        kind: Literal["npu"] = "npu"

    assert isinstance(node.model_validate({"gpu": {"kind": "npu"}}).gpu, Npu)


def test_errors_inside_a_kind_keep_their_whole_location(node):
    with pytest.raises(ValidationError) as caught:
        node.model_validate(
            {
                "gpu": {"bandwidth": 1, "launch": "1 GB", "clok": 2},
                "others": [{"kind": "cpu"}, {"kind": "cpo"}, {}, 3],
            },
            context={"file": True},
        )
    found = {error["loc"]: error["msg"] for error in caught.value.errors()}
    assert list(found) == [
        ("gpu", "bandwidth"),
        ("gpu", "launch"),
        ("gpu", "clok"),
        ("others", 0, "cores"),
        ("others", 1, "kind"),
        ("others", 2),
        ("others", 3),
    ]
    assert "has no unit" in found["gpu", "bandwidth"]
    assert found["others", 1, "kind"] == "is no kind of test device (known: cpu, gpu); did you mean cpu?"
    assert found["others", 2] == "has no kind; one of cpu, gpu is needed"


def test_resolve_refuses_what_is_not_there(family):
    assert family.resolve("gpu") is Gpu
    for kind in ("tpu!", 7, None, ["gpu"]):
        with pytest.raises(UnknownKindError, match="cpu, gpu"):
            family.resolve(kind)


def test_a_kind_needs_a_name_of_its_own(family):
    class Nameless(Device):
        pass

    class Other(Device):
        kind: Literal["gpu"] = "gpu"

    with pytest.raises(TypeError, match="needs a field"):
        family.register(Nameless)
    with pytest.raises(TypeError, match="already"):
        family.register(Other)
    assert family.register(Gpu) is Gpu


def test_the_schema_offers_every_kind_and_lets_only_the_default_be_left_out(node):
    schema = node.model_json_schema()
    cpu, gpu = schema["properties"]["gpu"]["oneOf"]
    assert (cpu["properties"]["kind"]["const"], gpu["properties"]["kind"]["const"]) == ("cpu", "gpu")
    assert "kind" in cpu["required"]
    assert "kind" not in gpu["required"]
    json.dumps(schema)


def test_a_family_inside_itself_has_a_schema():
    nested: Family[Device] = Family("nested")

    @nested.register
    class Box(Device):
        kind: Literal["box"] = "box"
        inner: Annotated[Device, nested.field()] | None = None

    class Shelf(Component):
        box: Annotated[Device, nested.field(default="box")]

    assert Shelf.model_json_schema()["properties"]["box"]["oneOf"][0]["title"] == "Box"
    assert Shelf.model_validate({"box": {"inner": {"kind": "box"}}}).box.inner == Box()
    del Family.registry["nested"]


def test_dumping_keeps_the_fields_of_the_kind(node):
    read = node.model_validate({"gpu": {"bandwidth": "1 TB/s"}})
    assert read.model_dump()["gpu"]["bandwidth"] == 1e12
    again = node.model_validate(json.loads(read.model_dump_json()), context={"file": True})
    assert again == read


def test_fields_are_declared_once():
    rows = {row.name: row for row in fields(Gpu)}
    assert rows["bandwidth"].dimension == "bandwidth"
    assert rows["bandwidth"].required
    assert rows["bandwidth"].description == "of its memory, per direction"
    assert (rows["parts"].type, rows["parts"].default) == ("int", 1)
    assert rows["launch"].type == "time"


def test_fields_name_families_and_lists(node):
    rows = {row.name: row.type for row in fields(node)}
    assert rows["gpu"] == "test device (cpu, gpu)"
    assert rows["others"] == "list of test device (cpu, gpu)"


# --- kinds of other packages --------------------------------------------------------------------------------


class Point:
    def __init__(self, name, load):
        self.name, self.value, self.load = name, f"package.{name}", load


@pytest.fixture
def plugins(monkeypatch):
    points = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == base.ENTRY_POINTS else ())
    base.load_plugins.cache_clear()
    yield points
    base.load_plugins.cache_clear()


def test_a_plugin_brings_its_kind_when_it_is_first_needed(family, plugins):
    class Soc(Device):
        kind: Literal["soc"] = "soc"

    plugins.append(Point("soc", lambda: family.register(Soc)))
    assert family.resolve("gpu") is Gpu
    assert "soc" not in family._kinds
    assert family.resolve("soc") is Soc


def test_a_broken_plugin_is_a_warning_that_names_it(family, plugins):
    def broken():
        raise ImportError("no such thing")

    plugins.append(Point("bad", broken))
    plugins.append(Point("good", lambda: None))
    with pytest.warns(UserWarning, match=r"plugin bad \(package.bad\).*no such thing"):
        assert set(family.kinds()) == {"cpu", "gpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        family.kinds()
    assert base.load_plugins() == ("good",)
