"""The style that no other tool checks: lengths, names, opening sentences, imports, and what no file may hold."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
MEANINGLESS = {"util", "utils", "common", "helper", "helpers", "base", "manager"}
LEFT_OVER = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~:])/(?:home|root|work|Users)/\w")

# (module, imported name): why it is imported only when it is used.
LATE_IMPORTS: dict[tuple[str, str], str] = {
    ("headwater/__init__.py", "headwater.log.opening"): "the log that is in a directory brings SQLite",
    ("headwater/__init__.py", "importlib.metadata"): "few ask for the version, and it loads the parser of mails",
    ("headwater/app.py", "headwater.runner"): "the runner puts the server beside the application",
    ("headwater/__init__.py", "headwater.app"): "who only uses the log does not need the engine",
    ("headwater/published.py", "headwater.engine.querying"): "DuckDB takes a tenth of a second to import",
    ("headwater/cli/demo.py", "headwater.demo.supervisor"): "only the demo needs a driver of PostgreSQL",
    ("headwater/cli/log_iceberg.py", "headwater.connectors.registry"): "no other command of a log needs connectors",
    ("headwater/app.py", "headwater.spark.session"): "Spark takes a second to import, and readers do not need it",
    ("headwater/app.py", "headwater.spark.frames"): "Spark takes a second to import, and readers do not need it",
    ("headwater/app.py", "headwater.spark.starting"): "Spark takes a second to import, and readers do not need it",
    ("headwater/app.py", "headwater.spark.runtime"): "Spark takes a second to import, and readers do not need it",
}

# Write: cannot, again, continue, this many, is none, the process that.
BANNED = re.compile(
    r"\bcan not\b|\banew\b|\b(?:go|goes|going|gone|went) on\b|\bso many\b|\bis seen to\b|\bthere are none\b"
    r"|\bwhoever\b|\b(?:for|of) who\b(?!,| in\b)",
    re.IGNORECASE,
)
WRITTEN = {"ARCHITECTURE.md", "CHANGELOG.md", "README.md", "docs", "src"}
KERNELS = "headwater.views"
CATALYST = "headwater/spark/catalyst/"

PICTURES = {".png"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines"


def opens_with_a_sentence(tree: ast.Module) -> bool:
    """Whether the first paragraph of the docstring is a sentence; a file with nothing in it needs none."""
    if not tree.body:
        return True
    first = (ast.get_docstring(tree) or "").split("\n\n")[0]
    return re.fullmatch(r"[A-Z`\"'].*\s.*[.:?]", first, re.DOTALL) is not None


def late_imports(tree: ast.Module) -> Iterator[str]:
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module or "."


def asked_kinds(tree: ast.Module) -> Iterator[str]:
    """The classes of kernels that a module asks whether something is one of: a kernel says itself what it does."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(KERNELS)
        for alias in node.names
    }
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = list(ast.walk(node.args[1]))
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        yield from (name.id for name in asked if isinstance(name, ast.Name) and name.id in imported)


def holds_java(tree: ast.Module) -> bool:
    """Whether a module takes the object of Java's out of a plan or an expression."""
    # The session's own packages begin with `java`, too.
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "java"
        and not (isinstance(node.value, ast.Attribute | ast.Name) and "jvm" in ast.unparse(node.value))
        for node in ast.walk(tree)
    )


def is_meaningless(path: Path) -> bool:
    return any(Path(part).stem.strip("_") in MEANINGLESS for part in path.parts)


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The parsed modules of the package, by their paths."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(), path) for path in source_files()}


def tracked_files() -> list[Path]:
    """Every file that git holds or would hold, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Where the pattern occurs, but for this file, which has to name what it looks for."""
    return [
        f"{path}:{number}: {line.strip()}"
        for path in tracked_files()
        if ROOT / path != Path(__file__) and path.suffix not in PICTURES
        for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_modules_are_short() -> None:
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in source_files()}
    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_functions_are_short(trees: dict[str, ast.Module]) -> None:
    assert [f"{name}: {found}" for name, tree in trees.items() for found in long_functions(tree)] == []


def test_modules_open_with_a_sentence(trees: dict[str, ast.Module]) -> None:
    assert [name for name, tree in trees.items() if not opens_with_a_sentence(tree)] == []


def test_imports_stand_at_the_top(trees: dict[str, ast.Module]) -> None:
    found = {(name, imported) for name, tree in trees.items() for imported in late_imports(tree)}
    assert found == set(LATE_IMPORTS)


def test_kernels_are_not_asked_what_they_are(trees: dict[str, ast.Module]) -> None:
    outside = [(name, tree) for name, tree in trees.items() if not name.startswith("headwater/views/")]
    assert [f"{name}: {found}" for name, tree in outside for found in asked_kinds(tree)] == []


def test_objects_of_catalyst_are_looked_into_in_one_package(trees: dict[str, ast.Module]) -> None:
    outside = [(name, tree) for name, tree in trees.items() if not name.startswith(CATALYST)]
    assert [name for name, tree in outside if holds_java(tree)] == []


def test_files_are_named_after_what_they_hold() -> None:
    assert [str(path) for path in tracked_files() if is_meaningless(path)] == []


def test_nothing_is_left_to_be_done_in_a_comment() -> None:
    assert lines_with(LEFT_OVER) == []


def test_no_file_names_a_directory_of_one_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_turn_of_phrase_is_banned() -> None:
    assert [found for found in lines_with(BANNED) if re.split(r"[/:]", found)[0] in WRITTEN] == []


@pytest.mark.parametrize(
    "line", ["It can not go.", "Read it anew", "the next run goes on", "So many rows", "for who asks"]
)
def test_a_banned_turn_of_phrase_is_found(line: str) -> None:
    assert BANNED.search(line)


def test_a_long_function_is_found() -> None:
    body = "    pass\n" * FUNCTION_LINES_MAX
    assert list(long_functions(ast.parse(f"def f():\n{body}"))) == [f"f has {FUNCTION_LINES_MAX + 1} lines"]


@pytest.mark.parametrize(
    ("source", "good"),
    [
        ("", True),
        ('"""What a thing is."""\n', True),
        ('"""What a thing is,\nin two lines.\n\nMore\n"""\n', True),
        ("x = 1\n", False),
        ('"""No full stop"""\n', False),
        ('"""no capital."""\n', False),
        ('"""Word."""\n', False),
    ],
)
def test_an_opening_is_told_from_a_sentence(source: str, good: bool) -> None:
    assert opens_with_a_sentence(ast.parse(source)) is good


def test_a_late_import_is_found() -> None:
    source = "import os\ndef f():\n    import sys\n    from a.b import c\n"
    assert sorted(late_imports(ast.parse(source))) == ["a.b", "sys"]


def test_a_kernel_that_is_asked_what_it_is_is_found() -> None:
    source = """
from headwater.views.join import Join
from headwater.views.topk import TopK
from headwater.spark.flow import Filter
isinstance(x, Join | Filter)
isinstance(x, Filter)
match x:
    case TopK():
        pass
"""
    assert sorted(asked_kinds(ast.parse(source))) == ["Join", "TopK"]


@pytest.mark.parametrize(
    ("source", "held"),
    [("plan.java.child()", True), ("expression.child.java", True), ("plan.child", False), ("jvm.java.lang", False)],
)
def test_an_object_of_java_is_found(source: str, held: bool) -> None:
    assert holds_java(ast.parse(source)) is held


@pytest.mark.parametrize(
    ("path", "bad"), [("src/a/utils.py", True), ("src/common/a.py", True), ("src/a/join.py", False)]
)
def test_a_meaningless_name_is_found(path: str, bad: bool) -> None:
    assert is_meaningless(Path(path)) is bad


@pytest.mark.parametrize("line", ["# TODO later", "x = 1  # FIXME"])
def test_a_left_over_is_found(line: str) -> None:
    assert LEFT_OVER.search(line)


def test_a_path_of_one_machine_is_told_from_an_address() -> None:
    assert MACHINE_PATH.search("cd /home/someone")
    assert not MACHINE_PATH.search("https://example.com" + "/home/item")


def test_files_that_the_design_names_are_there() -> None:
    package = SOURCE / "headwater"
    known = {path.name for path in package.rglob("*") if path.suffix in {".py", ".js"}}
    missing = []
    for page in (ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs/design").glob("*.md"))):
        for named in re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|js))`", page.read_text()):
            places = (ROOT, package, package / "server")
            found = any((place / named).exists() for place in places) if "/" in named else named in known
            missing += [] if found else [f"{page.name}: {named}"]
    assert missing == []
