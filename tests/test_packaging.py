"""What surrounds the library: versions, pins, citation, Binder, workflow, style."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import attn_clusters

ROOT = Path(__file__).resolve().parent.parent
PAPERS = ("2305.05465", "2605.10931")
# The names are put together here, so that this file does not hold what it forbids.
REGISTRIES = [f"{name}.{end}" for name, end in
              [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"),
               ("anaconda", "org"), ("debian", "org")]]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def tracked_texts():
    """Path and text of every file that git knows, or would once added."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix not in (".png", ".npz", ".npy") and path.is_file():
            yield name, path.read_text(encoding="utf-8")


def version(pin):
    return str(pin.specifier).removeprefix("==")


def locked(python):
    """Name -> version in the lock, on Linux, for this Python."""
    environment = {"python_full_version": f"{python}.0", "python_version": python,
                   "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
                   "platform_machine": "x86_64", "implementation_name": "cpython",
                   "platform_python_implementation": "CPython"}
    lines = [line.rstrip("\\ ") for line in read("requirements.lock").splitlines()
             if line and line[0] not in " #"]
    pins = map(Requirement, lines)
    return {pin.name: version(pin) for pin in pins
            if pin.marker is None or pin.marker.evaluate(environment)}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads(read("pyproject.toml"))["project"]


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load(read("CITATION.cff"))


def test_one_version(project, citation):
    assert project["version"] == attn_clusters.__version__ == str(citation["version"])
    assert f"## {project['version']}" in read("CHANGELOG.md")


def test_citation_names_both_papers(citation):
    assert citation["cff-version"] == "1.2.0"
    assert [reference["doi"] for reference in citation["references"]] == [
        f"10.48550/arXiv.{paper}" for paper in PAPERS]
    for paper in PAPERS:
        assert paper in read("README.md")
        assert paper in read("book/references.bib")


def test_one_repository_address(citation):
    address = yaml.safe_load(read("_config.yml"))["repository"]["url"]
    assert citation["repository-code"] == address
    assert address.removeprefix("https://github.com/") in read("README.md")


def test_every_locked_package_has_hashes(project):
    entries = re.split(r"\n(?=\S)", read("requirements.lock").strip())
    without = [entry.split()[0] for entry in entries
               if not entry.startswith("#") and "--hash=sha256:" not in entry]
    assert without == []
    direct = {Requirement(line).name for line in project["dependencies"]}
    assert direct <= set(locked("3.11"))


def test_binder_gets_the_locked_versions(project):
    dependencies = yaml.safe_load(read("environment.yml"))["dependencies"]
    python = next(item for item in dependencies if str(item).startswith("python=")).split("=")[1]
    pinned = next(item["pip"] for item in dependencies if isinstance(item, dict))
    assert pinned[-1] == "-e ."
    pins = {pin.name: version(pin) for pin in map(Requirement, pinned[:-1])}
    lock = locked(python)
    assert pins == {name: lock[name] for name in pins}
    assert {Requirement(line).name for line in project["dependencies"]} <= set(pins)


def test_repo2docker_finds_and_renders_the_environment():
    done = subprocess.run([sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."],
                          cwd=ROOT, capture_output=True, text=True)
    log = done.stdout + done.stderr
    assert done.returncode == 0, log
    assert "Building conda environment for python=3.11" in log
    copied = log.index("COPY --chown=0:0 src/ ${REPO_DIR}/")
    assert copied < log.index('env update -p ${NB_PYTHON_PREFIX} --file "environment.yml"')  # for -e .


def test_workflow_actions_are_pinned_by_commit():
    uses = re.findall(r"uses: *(\S+)(.*)", read(".github/workflows/ci.yml"))
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_continuous_integration_runs_the_two_commands():
    lines = [line for line in read(".ci/run").splitlines() if line.startswith("make")]
    assert lines == ["make book", "make test"]
    assert "bash .ci/run" in read(".github/workflows/ci.yml")


def test_no_file_names_a_package_registry():
    found = [(name, host) for name, text in tracked_texts() for host in REGISTRIES
             if host in text.lower()]
    assert found == []


def test_the_example_in_the_readme_runs():
    example, output = re.findall(r"```(?:python|text)\n(.*?)```", read("README.md"), re.DOTALL)[:2]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == output.splitlines()[0], done.stderr


def test_ruff_finds_nothing():
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "."],
                          cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
