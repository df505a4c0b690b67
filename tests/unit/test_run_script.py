"""`./run` before there is any environment: what it says when the machine lacks something."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "cat", "env", "git", "grep", "sed", "cksum", "tr", "dirname", "touch", "rm")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """`run` with its locks and a PATH that holds only what POSIX has, and git."""
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    shutil.copy(ROOT / "run", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def shim(checkout: Path, name: str, script: str) -> None:
    path = checkout / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def run(checkout: Path, *arguments: str, **env: str) -> tuple[int, str]:
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        ["sh", str(checkout / "run"), *arguments], env={"PATH": str(checkout / "bin"), **kept, **env},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_an_unknown_command_is_named(checkout: Path) -> None:
    code, said = run(checkout, "foo")
    assert code == 2 and said.startswith("ccweb: foo is no command of ./run\nusage:")


def test_help_lists_every_command(checkout: Path) -> None:
    script = (ROOT / "run").read_text(encoding="utf-8")
    code, said = run(checkout)
    assert code == 0 and said == run(checkout, "--help")[1]
    for command in ("demo", "dev", "temporal", "bench", "ccweb", "setup", "test"):
        assert f"\n{command})" in script and f"\n  {command} " in said


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ("", "Python 3.11 or newer is needed, none was found on PATH (or name it: PYTHON=/path/to/python3)"),
        ("nosuch", "PYTHON=nosuch: there is no such program"),
        ("old", "PYTHON=old: is not Python 3.11 or newer"),
    ],
)
def test_a_missing_or_wrong_python_is_one_line(checkout: Path, python: str, expected: str) -> None:
    shim(checkout, "old", "exit 1")
    assert run(checkout, "demo", PYTHON=python) == (1, f"ccweb: {expected}\n")


def test_a_python_without_venv_or_pip_is_one_line(checkout: Path) -> None:
    shim(checkout, "python3", f'case "$2" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"')
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    code, said = run(checkout, "demo")
    assert code == 1 and said.count("\n") == 1
    assert said.endswith(f"python3 has no venv or pip; install them (Debian: apt-get install python{version}-venv)\n")


def test_a_missing_git_is_one_line(checkout: Path) -> None:
    (checkout / "bin" / "git").unlink()
    expected = "ccweb: git is needed, it was not found on PATH (Debian: apt-get install git)\n"
    assert run(checkout, "demo") == (1, expected)


def test_packages_that_cannot_be_installed_are_told_and_not_taken_for_installed(checkout: Path) -> None:
    shim(checkout, "python3", f'exec {sys.executable} "$@"')
    code, said = run(checkout, "ccweb", "--help", PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert code == 1 and "ERROR: No matching distribution found" in said
    assert "ccweb: the packages of requirements/app.lock are not all installed;" in said.splitlines()[-1]
    assert not list((checkout / ".venv").glob(".app-*"))
