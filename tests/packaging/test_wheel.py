"""The wheel, installed alone into a new project, does what the README says."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from objq.store.open import ADAPTERS
from tests.packaging.new_project import (
    ROOT,
    Environment,
    NewProject,
    answers,
    free_port,
    wait_until,
)

# They share an environment that takes long to make, so they run in one process.
pytestmark = pytest.mark.xdist_group("wheel")

POST = """
from django.test import Client
answer = Client(SERVER_NAME="localhost").post("/greet/World/")
print(answer.json()["id"])
"""

SHOW = """
from django.test import Client
print(Client(SERVER_NAME="localhost").get("/jobs/{id}/").content.decode())
"""


MISSING = """
from django.test import Client
print(Client(SERVER_NAME="localhost").get("/jobs/nothing/").status_code)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = folder.glob("objq-*.whl")
    return path


def _second_python() -> str:
    found = subprocess.run(
        [ROOT / "tools" / "second_python.sh"], check=False, capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip(found.stderr.strip())
    return found.stdout.strip()


# On Python 3.11 the newest Django is 5.2, so the newest of all is tried with another Python.
PYTHONS = ["this Python", "second Python"] if sys.version_info < (3, 12) else ["this Python"]


@pytest.fixture(scope="module", params=PYTHONS)
def environment(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    python = sys.executable if request.param == "this Python" else _second_python()
    return Environment(tmp_path_factory.mktemp("environment") / "venv", wheel, python)


@pytest.fixture
def project(environment: Environment, tmp_path: Path) -> NewProject:
    return NewProject(environment, tmp_path / "site")


def test_the_wheel_holds_both_packages_whole_and_nothing_else(wheel: Path) -> None:
    packages = {"objq": ROOT / "objq", "objq_dashboard": ROOT / "dashboard" / "objq_dashboard"}
    expected = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in packages.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected
    assert {"objq/py.typed", "objq_dashboard/py.typed"} <= names
    for kind in ("templates", "static"):
        assert any(name.startswith(f"objq_dashboard/{kind}/objq_dashboard/") for name in names)


def test_the_wheel_says_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Name"] == "objq"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    vendored = ROOT.glob("dashboard/objq_dashboard/static/objq_dashboard/vendor/*")
    licences = [f"{folder.relative_to(ROOT).as_posix()}/LICENSE" for folder in vendored]
    assert sorted(metadata.get_all("License-File", [])) == sorted(["LICENSE", *licences])
    extras = set(metadata.get_all("Provides-Extra", []))
    assert {"s3", "google", "azure", "django52"} <= extras
    assert {adapter.extra for adapter in ADAPTERS} <= {
        "",
        *extras,
    }  # as messages advise


def test_a_new_project_runs_a_job_as_the_readme_says(project: NewProject) -> None:
    project.manage("check", "--fail-level", "WARNING")
    project.manage("makemigrations", "--check", "--dry-run")
    port = free_port()
    with project.running("runbroker", "--bind", f"127.0.0.1:{port}"):
        wait_until("the broker leads", lambda: answers(f"http://127.0.0.1:{port}/readyz"))
        with project.running("objq_worker"):
            job = project.shell(POST)
            wait_until(
                "the job has run", lambda: '"SUCCESSFUL"' in project.shell(SHOW.format(id=job))
            )
            shown = json.loads(project.shell(SHOW.format(id=job)))
            assert project.shell(MISSING) == "404"
    assert shown == {"status": "SUCCESSFUL", "value": "Hello, World!"}

    document = json.loads((project.folder / "objq-data" / "queue.json").read_bytes())
    assert document["broker"] is None  # the broker has stepped down
    assert document["totals"]["default"]["succeeded"] == 1


def test_a_push_without_any_broker_says_to_start_one(project: NewProject) -> None:
    said = project.shell(
        "from mysite.tasks import greet\n"
        "try: greet.enqueue('World')\n"
        "except Exception as problem: print(type(problem).__name__, problem)"
    )
    assert "runbroker" in said
    assert not (project.folder / "objq-data" / "queue.json").exists()
