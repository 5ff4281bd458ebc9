import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.errors import DesignError
from archmodel.source import limits, read, scalar
from archmodel.source.reading import Budget, build


@pytest.fixture
def load(tmp_path):
    def load(content):
        path = tmp_path / "x.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read(path)

    return load


def problems_of(load, content):
    with pytest.raises(DesignError) as caught:
        load(content)
    return [(problem.line, problem.column, problem.field, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8), ("-3", -3), ("1_000_000", 1_000_000), ("0x10", 16), ("0o17", 15), ("010", 10),
        ("1e9", 1e9), ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("+1.5e-3", 1.5e-3), (".inf", math.inf),
        ("-.INF", -math.inf), ("true", True), ("False", False), ("~", None), ("", None), ("null", None),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("nan", "nan"), ("1e", "1e"), ("1.2.3", "1.2.3"),
        ("-", [None]),
        ("12:30:45", "12:30:45"), ("2024-01-01", "2024-01-01"), ("400 Gbit/s", "400 Gbit/s"),
        ("85 %", "85 %"),
        ("'8'", "8"), ('"1e9"', "1e9"), ("0b101", "0b101"), ("9" * 5000, "9" * 5000), ("[1, a]", [1, "a"]),
        ("{a: 1 GB}", {"a": "1 GB"}), ("١٢", "١٢"),
    ],
)  # fmt: skip
def test_scalars_as_yaml_1_2_reads_them(text, value):
    found = scalar(text)
    assert found == value
    assert type(found) is type(value) or isinstance(found, list | dict)


def test_nan_is_a_number_for_the_fields_to_refuse():
    assert math.isnan(scalar(".nan"))


def test_a_set_value_that_is_no_yaml_names_its_origin():
    with pytest.raises(DesignError, match=r"^--set:1:1 "):
        scalar("@x")


def test_every_key_and_item_knows_its_place(load):
    tree = load("# a comment\nsystem:\n  nic: {bandwidth: 25 GB/s}\nrules:\n  - tier: hbm\n  - ddr\n")
    assert tree.marks["system"][1:] == (2, 1)
    assert tree["system"]["nic"].marks["bandwidth"][1:] == (3, 9)
    assert tree["system"]["nic"].path == "system.nic"
    assert tree["rules"][0].marks["tier"][1:] == (5, 5)
    assert tree["rules"].marks[1][1:] == (6, 5)
    assert tree["rules"][0].path == "rules[0]"
    assert tree.marks["system"].file.endswith("x.yaml")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_json_is_read_as_json_reads_it(value):
    text = json.dumps({"value": value})
    found, _ = build(text, "x", Budget(), problems := [])
    assert not problems
    assert found == json.loads(text)


def test_aliases_are_copies_with_paths_of_their_own(load):
    tree = load("a: &a {x: [1, 2]}\nb: *a\nc: [*a]\n")
    assert tree["b"] == tree["a"] == tree["c"][0]
    assert tree["b"] is not tree["a"]
    assert tree["c"][0]["x"].path == "c[0].x"


@pytest.mark.parametrize(
    ("content", "line", "column", "field", "message"),
    [
        ("a: 1\nb: [1, 2\n", 3, 1, "", "is not YAML"),
        ("a:\n\tb: 1\n", 2, 1, "", "is not YAML"),
        ("a: b: c\n", 1, 5, "", "is not YAML"),
        ("a: 1\na: 2\n", 2, 1, "a", "is given twice; first on line 1"),
        ("x:\n  a: 1\n  a: {b: 1}\n", 3, 3, "x.a", "is given twice; first on line 2"),
        ("1: x\n", 1, 1, "", "the key 1 is not text"),
        ("x: {true: 1}\n", 1, 5, "x", "the key true is not text"),
        ("? [a, b]\n: 1\n", 1, 3, "", "the key a list is not text"),
        ("? {a: 1}\n: 1\n", 1, 3, "", "the key a mapping is not text"),
        ("a: &a {b: 1}\nc: {<<: *a}\n", 2, 5, "c", "merge keys"),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            1,
            4,
            "a",
            "the tag !!python/object/apply:os.system is not read",
        ),
        ("a: !thing {}\n", 1, 4, "a", "the tag !thing is not read"),
        ("a: !!str 1\n", 1, 4, "a", "the tag !!str is not read"),
        ("a: *b\n", 1, 4, "a", "the alias *b is not defined above"),
        ("a: &a [*a]\n", 1, 8, "a[0]", "the alias *a holds itself"),
        ("a: 1\n--- \nb: 1\n", 2, 1, "", "a second document"),
        ("", 1, 1, "", "is empty"),
        ("# nothing\n", 1, 1, "", "is empty"),
        ("- a\n- b\n", 1, 1, "", "holds a list; a mapping is needed"),
        ("just text", 1, 1, "", 'holds "just text"; a mapping is needed'),
        ("a: b\nc: \x07\n", 2, 4, "", "holds a character that YAML does not allow"),
        (b"a: 1\nb: \xff\n", 2, 4, "", "is not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), 1, 1, "", "is not UTF-8 text"),
        ('a: "\\ud800"\n', 1, 4, "a", "holds half a character"),
        ('a: "\\UFFFFFFFF"\n', None, None, "", "is not YAML"),
    ],
)
def test_what_is_refused_and_where(load, content, line, column, field, message):
    (found,) = problems_of(load, content)
    assert found[:3] == (line, column, field)
    assert message in found[3]


def test_problems_that_can_be_stepped_over_are_told_together(load):
    found = problems_of(load, "a: 1\na: 2\n3: x\nb: !t x\nc: {d: 1, d: 2}\n")
    assert [line for line, *_ in found] == [2, 3, 4, 5]


def test_harmless_text_stays_text(load):
    tree = load('name: "<script>\\e[31m\\0"\n"a.b\\n": 1\n')
    assert tree["name"] == "<script>\x1b[31m\0"
    assert tree["a.b\n"] == 1


def test_a_byte_order_mark_is_no_part_of_the_first_key(load):
    assert load(b"\xef\xbb\xbfa: 1\n") == {"a": 1}


# --- limits -------------------------------------------------------------------------------------------------


def bomb(levels):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bomb(30), "expands to more than 100,000"),
        ("[" * 100_000, "more than 32 deep"),
        ("{a: " * 100_000, "more than 32 deep"),
        ("- " * 100_000, "more than 32 deep"),
        ("? " * 100_000, "more than 32 deep"),
        ("".join(" " * level + "a:\n" for level in range(900)), "more than 32 deep"),
        ("a: &a " + "[" * 20 + "]" * 20 + "\nb: " + "[" * 20 + "*a" + "]" * 20, "more than 32 deep"),
        ("- a\n" * 26_000, "above 25,000 keys and values"),
        ("a: " + "x" * limits.BYTES, "is too large: 512 KiB"),
        (b"\0" * 10 * limits.BYTES, "is too large: 512 KiB"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_limits(load, content, message):
    (found,) = problems_of(load, content)
    assert message in found[3]


def test_a_bomb_is_found_before_it_is_expanded():
    budget = Budget()
    with pytest.raises(DesignError):
        build(bomb(30), "x", budget, [])
    assert budget.parsed < 1000
    assert budget.copied < 10 * limits.COPIES


def test_just_inside_the_limits(load):
    depth = limits.DEPTH - 1
    assert load("a: " + "[" * depth + "]" * depth)
    assert len(load("a:\n" + "- 1\n" * (limits.NODES - 3))["a"]) == limits.NODES - 3
