from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field, model_validator

from archmodel.components.base import Component, Family
from archmodel.errors import DesignError, Problem
from archmodel.quantities import Bytes, Count, PositiveBandwidth, Seconds
from archmodel.source import Mark, located, read, set_path, validate

DEVICES: Family["Device"] = Family("test device")


class Device(Component):
    pass


@DEVICES.register
class Gpu(Device):
    kind: Literal["gpu"] = "gpu"
    bandwidth: PositiveBandwidth = Field(description="of its memory")
    launch: Seconds = 0.0


@DEVICES.register
class Cpu(Device):
    kind: Literal["cpu"] = "cpu"
    cores: Count


class Table(Component):
    num_embeddings: Count
    embedding_dim: Count = 128
    sharding: Literal["table_wise", "row_wise"] = "table_wise"


class Cache(Component):
    size: Bytes
    policy: Literal["lru", "lfu"] = "lru"

    @model_validator(mode="after")
    def odd(self):
        if self.size == 3.0:
            raise ValueError("holds no line of memory")
        return self


class Design(Component):
    gpu: Annotated[Device, DEVICES.field(default="gpu")]
    devices: dict[str, Annotated[Device, DEVICES.field()]] = Field(default_factory=dict)
    spare: Annotated[Device, DEVICES.field()] | None = None
    tables: list[Table] = Field(default_factory=list)
    named: dict[str, Table] = Field(default_factory=dict)
    cache: Literal["none"] | Cache | Bytes = "none"
    sizes: tuple[Count, ...] = ()
    flag: bool = False
    rate: float = 1.0
    few: list[int] = Field([], min_length=1, max_length=2)
    published: dict[str, dict[str, str]] = Field(default_factory=dict)


GOOD = {"gpu": {"bandwidth": "1 TB/s"}}


def problems(data, **options):
    with pytest.raises(DesignError) as caught:
        validate(Design, located({**GOOD, **data}, mark=Mark("x.yaml", 1, 1)), **options)
    return {problem.field: problem for problem in caught.value.problems}


def test_a_good_tree_becomes_a_model():
    design = validate(Design, located({**GOOD, "tables": [{"num_embeddings": {"value": 8, "source": "a paper"}}]}))
    assert design.gpu == Gpu(bandwidth=1e12)
    assert design.tables == [Table(num_embeddings=8)]


def test_every_problem_is_told_with_its_place(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "gpu:\n"
        '  bandwidth: "25 GB"\n'
        "  clok: 1 GHz\n"
        "devices:\n"
        "  a: {kind: cpu}\n"
        "  b: {kind: cpo}\n"
        "tables:\n"
        "  - {num_embeddings: 1e6, embeding_dim: 4}\n"
        "  - {num_embeddings: 4, sharding: tablewise}\n"
        "tabels: 3\n"
    )
    with pytest.raises(DesignError) as caught:
        validate(Design, read(path))
    found = [str(problem).replace(str(tmp_path) + "/", "") for problem in caught.value.problems]
    assert found == [
        'x.yaml:2:3  gpu.bandwidth  "25 GB"  is an amount of data; a bandwidth is needed, '
        'e.g. "25 GB/s" or "200 Gbit/s"',
        "x.yaml:3:3  gpu.clok  unknown field; known: bandwidth, launch",
        "x.yaml:5:3  devices.a.cores  is missing",
        'x.yaml:6:7  devices.b.kind  "cpo"  is no kind of test device (known: cpu, gpu); did you mean cpu?',
        "x.yaml:8:6  tables[0].num_embeddings  1000000.0  is not a whole number; write 1000000",
        "x.yaml:8:27  tables[0].embeding_dim  unknown field; did you mean embedding_dim?",
        'x.yaml:9:25  tables[1].sharding  "tablewise"  is none of table_wise, row_wise; did you mean table_wise?',
        "x.yaml:10:1  tabels  unknown field; did you mean tables?",
    ]


@pytest.mark.parametrize(
    ("data", "field", "message"),
    [
        ({"gpu": {}}, "gpu.bandwidth", "is missing (of its memory); a bandwidth is needed"),
        ({"gpu": {"bandwidth": 5}}, "gpu.bandwidth", "has no unit; a bandwidth is needed"),
        ({"gpu": {"bandwidth": "0 GB/s"}}, "gpu.bandwidth", "is zero"),
        ({"gpu": 3}, "gpu", "is not a mapping; a test device with its fields is needed"),
        ({"gpu": None}, "gpu", "is not a mapping"),
        ({"spare": {"cores": 3}}, "spare", "has no kind; one of cpu, gpu is needed"),
        (
            {"spare": {"kind": "cpu", "cors": 3, "cores": 1}},
            "spare.cors",
            "unknown field; did you mean cores?",
        ),
        ({"tables": {}}, "tables", "is not a list"),
        ({"tables": [3]}, "tables[0]", "is not a mapping"),
        ({"tables": [{"num_embeddings": 0}]}, "tables[0].num_embeddings", "is less than 1"),
        (
            {"tables": [{"num_embeddings": 10**16}]},
            "tables[0].num_embeddings",
            "is more than 1,000,000,000,000,000",
        ),
        ({"tables": [{"num_embeddings": True}]}, "tables[0].num_embeddings", "is not a whole number"),
        (
            {"named": {"a": {"num_embedings": 1, "num_embeddings": 1}}},
            "named.a.num_embedings",
            "did you mean num_emb",
        ),
        ({"named": []}, "named", "is not a mapping"),
        ({"sizes": [1, 2.5]}, "sizes[1]", "is not a whole number"),
        ({"flag": "perhaps"}, "flag", "is neither true nor false"),
        ({"rate": float("inf")}, "rate", "is not a finite number"),
        ({"rate": "fast"}, "rate", "is not a number"),
        ({"name": 3}, "name", "is not text; put it in quotes"),
        ({"few": []}, "few", "has 0 entries; at least 1"),
        ({"few": [1, 2, 3]}, "few", "has 3 entries; at most 2"),
        ({"status": "guess"}, "status", "is none of datasheet, measured, fitted, assumed"),
        ({"cache": {"size": "3 B"}}, "cache", "holds no line of memory"),
    ],
)
def test_messages(data, field, message):
    found = problems(data)
    assert list(found) == [field]
    assert message in found[field].message
    assert "Input should" not in found[field].message


def test_a_union_tells_about_the_branch_that_got_furthest():
    assert list(problems({"cache": {"size": "4 GB", "polcy": "lru"}})) == ["cache.polcy"]
    assert "did you mean policy?" in problems({"cache": {"size": "4 GB", "polcy": "lru"}})["cache.polcy"].message
    found = problems({"cache": "4 GHz"})
    assert list(found) == ["cache"]
    assert "is none of none" in found["cache"].message
    assert "an amount of data is needed" in found["cache"].message


def test_problems_found_before_are_told_too():
    earlier = Problem("a", "is given twice", None, "x.yaml", 3, 1)
    assert set(problems({"rate": "fast"}, problems=[earlier])) == {"a", "rate"}
    with pytest.raises(DesignError):
        validate(Design, located(GOOD), problems=[earlier])


def test_citations_are_checked():
    cited = {"value": "1 us", "status": "measurd", "source": 3, "calibrated": "no"}
    found = problems({"gpu": {"bandwidth": "1 GB/s", "launch": cited}})
    assert set(found) == {"gpu.launch.status", "gpu.launch.source", "gpu.launch.calibrated"}
    assert "did you mean measured?" in found["gpu.launch.status"].message


def test_a_misspelled_citation_is_named():
    found = problems({"gpu": {"bandwidth": {"value": "1 GB/s", "soruce": "x"}}})
    assert found["gpu.bandwidth.soruce"].message == "unknown field; did you mean source?"


def test_a_problem_with_a_cited_value_shows_the_value():
    found = problems({"gpu": {"bandwidth": {"value": "25 GB", "source": "x"}}})
    assert found["gpu.bandwidth"].value == '"25 GB"'


def test_published_is_left_as_it_is():
    data = {"published": {"throughput": {"value": "1.2 Msample/s", "source": "a paper"}}}
    assert validate(Design, located({**GOOD, **data})).published == data["published"]


def test_values_from_python_are_si():
    tree = set_path(located(GOOD), "gpu.bandwidth", 5e9)
    with pytest.raises(DesignError, match=r"^with_ +gpu\.bandwidth +5000000000\.0 +has no unit"):
        validate(Design, tree)
    assert validate(Design, tree, python=True).gpu.bandwidth == 5e9
    array = np.ones((3, 1))
    assert validate(Design, set_path(tree, "gpu.bandwidth", array)).gpu.bandwidth is array


def test_parts_validate_under_their_own_path():
    tree = located({"part": {"num_embeddings": 0}})
    with pytest.raises(DesignError) as caught:
        validate(Table, tree["part"])
    assert caught.value.problems[0].field == "part.num_embeddings"


def test_hostile_names_are_escaped():
    with pytest.raises(DesignError) as caught:
        validate(Design, located({**GOOD, "\x1b[2J<b>\n": 1}))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2
