"""What ships as `backstay.testing` is what its page offers, and what that needs."""

from pathlib import Path

from tests.source_tree import SOURCE, imports, read_tree

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_every_module_of_the_kit_is_on_its_page_or_needed_by_one_that_is() -> None:
    modules = {module.name: module for module in read_tree(SOURCE) if module.path.startswith("testing/")}
    page = PAGE.read_text(encoding="utf-8")
    todo = [name for name in modules if f"`{name}" in page]
    needed = set(todo)
    while todo:
        found = {each.base for each in imports(modules[todo.pop()])} & modules.keys() - needed
        needed |= found
        todo += found

    assert {name for name, module in modules.items() if not module.path.endswith("__init__.py")} - needed == set()


def test_nothing_that_ships_imports_what_does_not() -> None:
    outside = ("tests", "scripts", "benchmarks")
    found = [(module.path, each.target) for module in read_tree(SOURCE) for each in imports(module)]

    assert [each for each in found if each[1].partition(".")[0] in outside] == []
