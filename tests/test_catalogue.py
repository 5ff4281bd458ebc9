import pytest

from archmodel import catalogue
from archmodel.catalogue import CatalogueError, Entry


def test_every_file_of_the_catalogue_is_listed_once_under_its_kind():
    folder = catalogue.directory()
    expected = {path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml")}
    found = catalogue.entries()
    assert [entry.path for entry in found if entry.path not in expected] == []
    assert sorted(entry.path for entry in found) == sorted(expected)
    for entry in found:
        first, _, rest = entry.path.partition("/")
        assert entry.kind == (catalogue.KINDS[first] if rest else "design")


def test_every_file_says_in_its_head_what_it_is_and_where_it_comes_from():
    silent = [e.path for e in catalogue.entries() if not e.source or e.title == e.path.rpartition("/")[2][:-5]]
    assert silent == []


def test_entries_of_one_kind():
    systems = catalogue.entries("system")
    assert {"systems/dgx_a100.yaml", "systems/zionex.yaml"} <= {entry.path for entry in systems}
    assert {entry.kind for entry in systems} == {"system"}


@pytest.mark.parametrize("wanted", ["systems/dgx_h100.yaml", "systems/dgx_h100", "./systems/dgx_h100.yaml"])
def test_find_takes_a_path_as_use_writes_it(wanted):
    assert catalogue.find(wanted) == catalogue.directory() / "systems" / "dgx_h100.yaml"


def test_find_names_the_nearest_files():
    with pytest.raises(CatalogueError, match=r"no systems/dgx_h10.yaml; the nearest are systems/dgx_h100"):
        catalogue.find("systems/dgx_h10.yaml")


@pytest.mark.parametrize("wanted", ["", "..", "../pyproject.toml", "/etc/passwd", "systems", "systems/../x", "\0"])
def test_find_gives_nothing_outside_the_catalogue(wanted):
    with pytest.raises(CatalogueError):
        catalogue.find(wanted)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder of its own, whose catalogue is looked for anew."""
    folder = tmp_path / "site" / "archmodel"
    folder.mkdir(parents=True)
    monkeypatch.setattr(catalogue, "__file__", str(folder / "catalogue.py"))
    catalogue.directory.cache_clear()
    yield folder
    catalogue.directory.cache_clear()


def test_an_installed_package_carries_its_own_catalogue(package):
    (package.parent / "designs").mkdir()
    assert catalogue.directory() == package.parent / "designs"
    catalogue.directory.cache_clear()
    (package / "_designs").mkdir()
    assert catalogue.directory() == package / "_designs"


def test_a_package_without_catalogue_says_where_it_looked(package):
    with pytest.raises(CatalogueError, match=r"no catalogue; looked for .*_designs and .*designs"):
        catalogue.directory()


@pytest.mark.parametrize(
    ("text", "title", "source"),
    [
        ("name: A thing\nsource: a book\n", "A thing", "a book"),
        ("# words\nkind: x\nsource: \"a \\\"b\\\": c\"\nname: 'it''s'\n", "it's", 'a "b": c'),
        ("name: >-\n  in two\n  lines\nsource: |\n  s\nkind: x\n", "in two lines", "s"),
        ("system:\n  name: not this\n  source: nor this\n", "file", ""),
        ("", "file", ""),
        ("name:\nsource:\n", "file", ""),
        ("x: 1\n" * catalogue.HEAD + "name: too far down\n", "file", ""),
    ],
)
def test_title_and_source_are_read_from_the_head(package, text, title, source):
    folder = package / "_designs"
    folder.mkdir()
    (folder / "file.yaml").write_text(text, encoding="utf-8")
    assert catalogue.entries() == (Entry("file.yaml", "design", title, source),)


def test_a_file_without_source_has_that_of_the_file_it_starts_from(package):
    folder = package / "_designs" / "fabrics"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text("name: A\nsource: s\n")
    (folder / "b.yaml").write_text("use: a.yaml\nname: B\n")
    (folder / "c.yaml").write_text("use: gone.yaml\nname: C\n")
    assert [(e.title, e.source) for e in catalogue.entries("fabric")] == [("A", "s"), ("B", "s"), ("C", "")]


def test_a_head_that_is_no_text_is_harmless(package):
    folder = package / "_designs"
    folder.mkdir()
    (folder / "file.yaml").write_bytes(b"name: \xff\xfe\nsource: s\n")
    assert catalogue.entries() == (Entry("file.yaml", "design", "\ufffd\ufffd", "s"),)
