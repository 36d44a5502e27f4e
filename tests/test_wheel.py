"""The wheel, built and installed where there is nothing but what it says it needs.

The clean environment is a new one whose packages are links to those of this one: the closure of the
run-time requirements, as the metadata of the distributions tell it. Nothing is fetched.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tessella.runner.run_study import STUDY_PACKAGES

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]
EXTRAS = {name: needs for name, needs in OPTIONAL.items() if name not in ("all", "dev")}
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]

USE = """
import importlib.util, json, sys
import tessella as ts

told = {"version": ts.__version__, "file": ts.__file__}
names = json.loads(sys.argv[1])
told["found"] = [name for name in names if importlib.util.find_spec(name) is not None]
solution = ts.solve(ts.problem("frozen_lake").build())
rule = ts.compress(solution, loss=0.99, time_limit=2)
told["says"] = rule.explain()
told["certified"] = ts.certify(solution, rule).summary()
told["exports"] = [str(rule.export(f"rule.{ending}")) for ending in ("c", "py", "sql", "json")]
told["loaded"] = ts.Rule.load("rule.json").size == rule.size
solution.mdp.save("model.nc")
rule.certificate.save("certificate.json")

def missing(act):
    try:
        act()
    except ts.MissingExtra as error:
        return str(error)

from click.testing import CliRunner
from tessella.cli import main

told["missing"] = {
    "gym": missing(solution.mdp.to_gymnasium),
    "onnx": missing(lambda: rule.export("rule.onnx")),
    "xlsx": missing(lambda: rule.export("rule.xlsx")),
    "explore": CliRunner().invoke(main, ["explore", "--no-browser"]).output,
    "study": missing(lambda: ts.run_study(ts.Study(("QUE-Lin",), ("linear",), (10,), 1))),
}
sample = ts.draw(solution, 20)
study = ["study", "--models", "QUE-Lin", "--methods", "linear", "--sizes", "10", "--seeds", "1"]
told["without study"] = [
    missing(lambda: ts.fit(ts.MarginBoundary(), sample)),
    CliRunner().invoke(main, study).output,
    CliRunner().invoke(main, ["paper", "--seeds", "1"]).output,
    CliRunner().invoke(main, ["fit", "QUE-Lin"]).output,
]
told["names"] = [name for name in ts.__all__ if getattr(ts, name) is None]
print(json.dumps(told))
"""


def closure(requirements: list[str]) -> dict[str, Distribution]:
    """The distributions of this environment that requirements lead to, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(one), "") for one in requirements]
    while waiting:
        needed, extra = waiting.pop()
        name = canonicalize_name(needed.name)
        if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
            continue
        found[name] = found.get(name) or distribution(name)
        for inner in found[name].requires or []:
            one = Requirement(inner)
            if canonicalize_name(one.name) not in found:
                waiting += [(one, extra) for extra in ("", *needed.extras)]
    return found


def tops(dist: Distribution) -> set[str]:
    """What a distribution puts into the folder of packages."""
    return {file.parts[0] for file in dist.files or []} - {"..", "__pycache__"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*PIP, *build, str(ROOT)], check=True)
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory) -> Path:
    """The folder of programs of an environment with the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = [programs / "python", "-c", where]
    packages = Path(
        subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    )
    for dist in closure(PROJECT["dependencies"]).values():
        for top in tops(dist):
            (packages / top).symlink_to(Path(str(dist.locate_file(top))))
    install = ["--python", str(programs / "python"), "install", "--no-index", "--no-deps"]
    subprocess.run([*PIP, *install, str(wheel)], check=True)
    return programs


@pytest.fixture(scope="module")
def others() -> list[str]:
    """Modules of this environment that the wheel does not ask for."""
    needed = closure(PROJECT["dependencies"])
    requirements = [one for needs in OPTIONAL.values() for one in needs]
    optional = [one for one in requirements if not one.startswith("tessella[")]
    more = {name: dist for name, dist in closure(optional).items() if name not in needed}
    names = {top.removesuffix(".py") for dist in more.values() for top in tops(dist)}
    return sorted(name for name in names if name.isidentifier())


@pytest.fixture(scope="module")
def used(clean, others, tmp_path_factory) -> dict:
    """What became of using the package there, and the folder with its files."""
    folder = tmp_path_factory.mktemp("used")
    command = [clean / "python", "-I", "-W", "error::DeprecationWarning:tessella", "-c", USE]
    done = subprocess.run(
        [*command, json.dumps(others)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "folder": folder}


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    source = ROOT / "src"
    files = {
        str(path.relative_to(source))
        for path in (source / "tessella").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as held:
        names = {name for name in held.namelist() if ".dist-info/" not in name}
    assert names == files
    assert {"tessella/explore/page/page.html", "tessella/paper/templates/report.html.j2"} <= names


def test_it_is_used_without_anything_that_it_does_not_ask_for(used, others):
    assert {"pytest", "hypothesis", "starlette", "uvicorn", "onnx", "openpyxl"} <= set(others)
    assert {"dask", "distributed", "jinja2", "optax", "pyarrow", "rich"} <= set(others)
    assert used["found"] == []
    assert used["version"] == PROJECT["version"]
    assert not Path(used["file"]).is_relative_to(ROOT)


RUN = """
import sys
sys.path.append(sys.argv[1])
import tessella as ts
policy = ts.Policy.from_table(ts.StateGrid(stock=range(3)), (0, 5), [1, 1, 0])
for ending in ("xlsx", "txt", "onnx"):
    print(ts.export(policy, f"rule.{ending}"))
"""


def test_the_extra_of_a_kind_of_file_brings_what_runs_it(clean, tmp_path):
    needed, more = closure(PROJECT["dependencies"]), tmp_path / "more"
    more.mkdir()
    for name, dist in closure([*EXTRAS["xlsx"], *EXTRAS["onnx"]]).items():
        for top in tops(dist) if name not in needed else ():
            (more / top).symlink_to(Path(str(dist.locate_file(top))))
    command = [clean / "python", "-I", "-c", RUN, str(more)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.partition(", ")[2] for line in done.stdout.splitlines()] == [
        "agrees in all 3 states"
    ] * 3


def test_a_model_is_solved_compressed_and_exported(used):
    assert used["says"].splitlines()[0]
    assert used["certified"].startswith("Certificate of the policy")
    assert used["loaded"]
    assert len(used["exports"]) == 4
    assert all("16 states" in said for said in used["exports"]), used["exports"]


def test_a_certificate_is_checked(clean, used):
    command = [clean / "python", "-I", "-m", "tessella.checker"]
    files = ["model.nc", "certificate.json"]
    done = subprocess.run(
        [*command, *files], cwd=used["folder"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("list", "INV-Mix"),
        ("solve frozen_lake", "no value is off by more than"),
        ("map frozen_lake", "16 states"),
        ("compress frozen_lake --loss 99% -o rule.c", "rule.c: C99, agrees in all 16 states"),
        ("check frozen_lake", "valid: "),
    ],
)
def test_the_commands_from_a_model_to_a_rule_work(clean, tmp_path, words, printed):
    command = [clean / "tessella", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_needs_an_extra_says_which(used, extra):
    sentence = f"needs the extra '{extra}': pip install 'tessella[{extra}]'; "
    assert sentence in used["missing"][extra]
    assert "Traceback" not in used["missing"][extra]


def test_every_public_name_is_there_without_the_extra_study_and_its_verbs_name_it(used):
    assert used["names"] == []
    for answer in used["without study"]:
        assert "needs the extra 'study': pip install 'tessella[study]'; " in answer
        assert "Traceback" not in answer


def test_the_extra_all_has_every_other_and_a_study_asks_for_all_of_its_extra():
    (everything,) = map(Requirement, OPTIONAL["all"])
    assert everything.extras == set(EXTRAS)
    assert {Requirement(one).name for one in EXTRAS["study"]} == set(STUDY_PACKAGES)
    assert "tessella[all]" in OPTIONAL["dev"]
    assert not re.search(r"https?:|file:|--(extra-)?index|--find-links", LOCK.read_text())
