from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import json
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOT_INIT = ROOT / "pyro_crowdclust" / "__init__.py"
INTERFACE = ROOT / "pyro_crowdclust" / "interface"
ENGINE_FILES = sorted(
    file for file in (ROOT / "pyro_crowdclust").rglob("*.py") if INTERFACE not in file.parents
)
PACKAGES = {
    file.parent.relative_to(ROOT).as_posix(): file.parent.relative_to(ROOT).as_posix()
    for file in (ROOT / "pyro_crowdclust").rglob("__init__.py")
} | {"pyro_crowdclust/models": "models", "pyro_crowdclust/guides": "guides"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Wheel built from a copy of the sources, so that no earlier build can lend it files."""
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("pyro_crowdclust", "models", "guides"):
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for pattern in ("pyproject.toml", "LICENSE", "README*"):
        for file in ROOT.glob(pattern):
            shutil.copy(file, source)
    target = tmp_path_factory.mktemp("wheel")
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(source)]
    build = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def run_installed(wheel, tmp_path_factory):
    """Function that runs code where the unpacked wheel, and not this checkout, can be imported.

    A new environment has no editable install of the project. Its path gets the unpacked wheel and
    this environment's packages; adding a folder to `sys.path` runs none of its `.pth` files.
    """
    installed = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(installed)
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    folder, program = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    python = environment / folder / program
    packages = [folder for folder in sys.path if Path(folder).name.endswith("-packages")]
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(code):
        header = f"import sys; sys.path[:] = {[str(installed)]!r} + sys.path + {packages!r}\n"
        command = [python, "-I", "-c", header + code]
        result = subprocess.run(
            command, cwd=elsewhere, capture_output=True, text=True, check=False, timeout=300
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    run.folder = installed
    return run


def test_wheel_holds_every_file_of_every_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"{package}/{file.name}"
        for package, folder in PACKAGES.items()
        for file in (ROOT / folder).glob("*.py")
    }
    assert {"pyro_crowdclust/models/__init__.py", "pyro_crowdclust/guides/__init__.py"} <= expected
    packaged = {name for name in names if ".dist-info/" not in name}
    files = ("sort.html", "sort.css", "sort.js", "hands.js")
    page = {f"pyro_crowdclust/exchange/page/{name}" for name in files}
    assert packaged == expected | page | {"pyro_crowdclust/py.typed"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_wheel_declares_the_command(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
    line = "pyro-crowdclust = pyro_crowdclust.interface.command_line:main"
    assert line in archive.read(name).decode().splitlines()


def test_every_folder_with_code_is_packaged():
    folders = {
        file.parent.relative_to(ROOT).as_posix()
        for top in ("pyro_crowdclust", "models", "guides")
        for file in (ROOT / top).rglob("*.py")
    }
    assert folders == set(PACKAGES.values())


@pytest.mark.long
def test_installed_wheel_resolves_without_the_checkout(run_installed):
    printed = run_installed(
        "import json, pyro_crowdclust, pyro_crowdclust.models, pyro_crowdclust.guides\n"
        "ours = [m for name, m in sys.modules.items() if name.split('.')[0] == 'pyro_crowdclust']\n"
        "print(json.dumps([m.__file__ for m in ours]))"
    )
    files = [Path(file).resolve() for file in json.loads(printed)]
    assert len(files) >= 3
    folder = run_installed.folder.resolve() / "pyro_crowdclust"
    assert all(file.is_relative_to(folder) for file in files), files


FIT = """
import json
import numpy as np
from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture

rng = np.random.default_rng(0)
features = np.repeat([[-3.0, 0.0], [3.0, 0.0]], 10, axis=0) + rng.standard_normal((20, 2)) / 3
pairs = {"left": [0, 1, 2], "right": [5, 11, 3], "worker": ["a", "a", "b"], "label": [1, 0, 1]}
data = CrowdData(features, pairs)
model = SemiCrowdsourcedMixture(
    DirichletWeights(2), GaussianComponents(2, 2), Identity(), TwoCoin(data.num_workers)
)
result = fit(model, MessagePassingGuide(model), data, epochs=3, progress=False)
print(json.dumps([result.assignments.tolist(), result.workers.index.tolist()]))
"""


def test_installed_wheel_fits(run_installed):
    assignments, workers = json.loads(run_installed(FIT))
    first, second = assignments[0], assignments[10]
    assert assignments == [first] * 10 + [second] * 10
    assert first != second
    assert workers == ["a", "b"]


def test_engine_alone_loads_no_model_and_no_guide(run_installed):
    # The names are loaded late: the bare package would load next to nothing.
    printed = run_installed(
        "import json\n"
        "from pyro_crowdclust import CrowdData, Fitted, fit, load\n"
        "print(json.dumps(list(sys.modules)))"
    )
    loaded = json.loads(printed)
    assert "pyro_crowdclust.fitting" in loaded
    ours = ("models", "guides", "interface")
    forbidden = (*ours, *(f"pyro_crowdclust.{name}" for name in ours))
    assert not [name for name in loaded if name.startswith(forbidden)]


def said_by(code):
    command = [sys.executable, "-c", f"import sys\n{code}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return run.stdout.splitlines()


def test_help_is_told_without_loading_torch():
    code = "from pyro_crowdclust.interface.command_line import main\ntry: main(['fit', '--help'])\n"
    *_, loaded = said_by(f"{code}except SystemExit: pass\nprint(*sys.modules)")
    assert {*loaded.split()}.isdisjoint({"torch", "pyro", "numpy", "pandas"})


@pytest.mark.long
def test_what_takes_long_to_load_is_loaded_when_it_is_used():
    steps = (
        "import torch, pyro",
        "from pyro_crowdclust import CrowdData, Fitted, fit, load",
        "import pyro_crowdclust.plots",
    )
    said = said_by("\n".join(f"{step}; print(*sys.modules)" for step in steps))
    before, with_fit, with_plots = ({*line.split()} for line in said)
    slow = {"sklearn", "scipy.stats", "scipy.optimize", "numba"}
    slow |= {"matplotlib.pyplot", "arviz", "xarray"}
    assert "torch" in before
    assert (with_fit - before).isdisjoint(slow)
    assert "matplotlib" not in with_plots


def test_faces_that_load_late_offer_what_they_list():
    import pyro_crowdclust
    import pyro_crowdclust.fitting
    from pyro_crowdclust import interface

    for face in (pyro_crowdclust, interface):
        assert {*face.__all__} <= {*dir(face)}
        assert all(hasattr(face, name) for name in face.__all__)
        assert {*face.__all__}.isdisjoint(getattr(face, "FOR_FILES", ()))
        with pytest.raises(AttributeError, match="has no attribute 'clutser'"):
            face.clutser  # noqa: B018
    assert callable(pyro_crowdclust.fit)


@pytest.mark.parametrize("name", ["CrowdClusterer", "classify", "cluster"])
def test_first_calls_are_found_where_they_are_looked_for(name):
    import pyro_crowdclust
    from pyro_crowdclust import interface

    assert getattr(pyro_crowdclust, name) is getattr(interface, name)
    assert name in pyro_crowdclust.__all__


def imported_names(source, package):
    """Full dotted names that a file of `package` imports, relative ones resolved."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level]
            start = [*(parents if node.level else []), *filter(None, [node.module])]
            yield from (".".join([*start, alias.name]) for alias in node.names)


def lies_in(folders, names):
    """Those of the names that lie in these folders, under either of their two addresses."""
    return [
        name for name in names if name.removeprefix("pyro_crowdclust.").split(".")[0] in folders
    ]


def models_and_guides(names):
    return lies_in(("models", "guides"), names)


@pytest.mark.parametrize("file", ENGINE_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_engine_never_imports_models_or_guides(file):
    package = ".".join(file.relative_to(ROOT).parent.parts)
    assert models_and_guides(imported_names(file.read_text(encoding="utf-8"), package)) == []


@functools.cache
def rooms():
    """The rooms of the table in docs/design.md, lowest first."""
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    table = text.partition("## Rooms")[2].partition("| --- | --- |\n")[2].partition("\n\n")[0]
    return [line.split("`")[1].removesuffix("/") for line in table.splitlines()]


def room_of(name):
    """The room of a module, by its full dotted name, or None for others."""
    parts = name.split(".")
    return (
        parts[1] if parts[0] == "pyro_crowdclust" and parts[1:2] and parts[1] in rooms() else None
    )


def test_every_room_is_in_the_table():
    folder = ROOT / "pyro_crowdclust"
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py"}
    found |= {file.parent.relative_to(folder).parts[0] for file in folder.glob("*/*.py")}
    assert sorted(rooms()) == sorted(found - {"__init__"})


@pytest.mark.parametrize("room", rooms())
def test_rooms_import_earlier_ones(room):
    """Late imports, and those for types alone, count like all others."""
    folder = ROOT / "pyro_crowdclust"
    floor, wrong = rooms().index(room), []
    for file in [*folder.glob(f"{room}.py"), *(folder / room).rglob("*.py")]:
        package = ".".join(file.relative_to(ROOT).parent.parts)
        for name in imported_names(file.read_text(encoding="utf-8"), package):
            if (other := room_of(name)) is not None and rooms().index(other) > floor:
                wrong.append((file.name, name))
    assert wrong == []


@functools.cache
def interface_rooms():
    """Folders and files of the interface, lowest first; those of a row do not import each other."""
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = design.partition("| folders and files | job |\n| --- | --- |\n")[2].partition("\n\n")[0]
    return [set(re.findall(r"`(\w+)/?`", row.split("|")[1])) for row in table.splitlines()]


def test_every_room_of_the_interface_is_in_its_table():
    found = {path.stem for path in INTERFACE.glob("*.py")} - {"__init__", "__main__"}
    found |= {file.parent.name for file in INTERFACE.glob("*/__init__.py")}
    assert sorted(found) == sorted(room for row in interface_rooms() for room in row)


@pytest.mark.parametrize("room", sorted(room for row in interface_rooms() for room in row))
def test_rooms_of_the_interface_import_earlier_ones(room):
    (place,) = (place for place, row in enumerate(interface_rooms()) if room in row)
    earlier = {room}.union(*interface_rooms()[:place])
    start = "pyro_crowdclust.interface."
    for file in [*INTERFACE.glob(f"{room}.py"), *(INTERFACE / room).glob("*.py")]:
        package = ".".join(file.relative_to(ROOT).parent.parts)
        names = imported_names(file.read_text(encoding="utf-8"), package)
        rooms_of = {name.removeprefix(start).split(".")[0] for name in names if start in name}
        assert rooms_of <= earlier, file


def imported_files():
    """The files of the project that each of its files imports, at any time, by dotted name."""
    files = {
        "pyro_crowdclust." * (top != "pyro_crowdclust")
        + ".".join(file.relative_to(ROOT).with_suffix("").parts): file
        for top in ("pyro_crowdclust", "models", "guides")
        for file in (ROOT / top).rglob("*.py")
    }
    names = {name.removesuffix(".__init__"): file for name, file in files.items()}
    arrows = {}
    for name, file in names.items():
        package = name if file.stem == "__init__" else name.rpartition(".")[0]
        imported = imported_names(file.read_text(encoding="utf-8"), package)
        # What is imported is a file, or a name in one.
        arrows[name] = {
            full if full in names else full.rpartition(".")[0] for full in imported
        } & names.keys()
    # The first calls that the face of all offers are loaded when they are first asked for.
    arrows["pyro_crowdclust"] -= {"pyro_crowdclust.interface"}
    return arrows


def test_no_file_imports_itself_through_others():
    graphlib.TopologicalSorter(imported_files()).prepare()


@pytest.mark.parametrize("folder", ["pyro_crowdclust", "models", "guides"])
def test_nothing_below_the_interface_imports_it(folder):
    """But for the face of all, which names the first calls for types alone."""
    for file in (ROOT / folder).rglob("*.py"):
        if INTERFACE not in file.parents and file != ROOT_INIT:
            package = ".".join(file.relative_to(ROOT).parent.parts)
            names = imported_names(file.read_text(encoding="utf-8"), package)
            assert lies_in(("interface",), names) == [], file


@pytest.mark.parametrize("file", sorted((ROOT / "models").glob("*.py")), ids=lambda file: file.stem)
def test_models_import_no_diagnostics(file):
    names = imported_names(file.read_text(encoding="utf-8"), "models")
    assert lies_in(("diagnostics", "results", "training", "plots"), names) == []


@functools.cache
def listed_names():
    """Every name that a folder of the library lists in its ``__init__``, by the folder's name."""
    tops = [ROOT / "models", ROOT / "guides", *(ROOT_INIT.parent / room for room in rooms())]
    return {
        top.name: {*importlib.import_module(f"pyro_crowdclust.{top.name}").__all__}
        for top in tops
        if top.is_dir()
    }


def imports_from_inside(file):
    """The names, with their rooms, that a file imports from files inside other rooms."""
    folders = file.relative_to(ROOT).parent.parts
    for name in imported_names(file.read_text(encoding="utf-8"), ".".join(folders)):
        library, *path = name.split(".")
        if library == "pyro_crowdclust" and len(path) > 2 and path[0] not in folders:
            yield path[0], path[-1]


@pytest.mark.parametrize("folder", ["models", "guides", "examples", "benchmarks"])
def test_names_are_imported_from_rooms(folder):
    for file in (ROOT / folder).rglob("*.py"):
        assert [*imports_from_inside(file)] == [], file


@pytest.mark.parametrize("file", sorted(INTERFACE.rglob("*.py")), ids=lambda file: file.stem)
def test_the_interface_imports_listed_names_from_rooms(file):
    names = imports_from_inside(file)
    assert [name for room, name in names if name in listed_names()[room]] == []


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("import models", "pyro_crowdclust"),
        ("import pyro_crowdclust.guides as g", "pyro_crowdclust"),
        ("from pyro_crowdclust import fit, models", "pyro_crowdclust"),
        ("from pyro_crowdclust.models.mixture import Mixture", "pyro_crowdclust"),
        ("def f():\n    from . import guides", "pyro_crowdclust"),
        ("from .guides import Guide", "pyro_crowdclust"),
        ("from ..models import Mixture", "pyro_crowdclust.families"),
        ("from .. import models", "pyro_crowdclust.families"),
    ],
)
def test_the_import_check_sees_every_spelling(source, package):
    assert len(models_and_guides(imported_names(source, package))) == 1


def test_the_import_check_spares_other_modules():
    source = "import pyro.infer, models_of_others\nfrom . import fit\nfrom .families import guides"
    names = list(imported_names(source, "pyro_crowdclust"))
    assert names[-1] == "pyro_crowdclust.families.guides"
    assert models_and_guides(names) == []
