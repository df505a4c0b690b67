"""The reference follows the code."""

from pathlib import Path

from domain import search_attributes
from settings import reference

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_every_setting_is_in_the_reference_with_its_default() -> None:
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    documented = [line for line in text.splitlines() if line.startswith("| `CCWEB_")]
    assert documented == ["| `{}` | {} | {} |".format(*row) for row in reference()]


def test_every_search_attribute_is_in_the_reference() -> None:
    text = (REFERENCE / "search-attributes.md").read_text(encoding="utf-8")
    assert all(f"--name {name} --type {kind}\n" in text for name, kind in search_attributes.TYPES.items())
    assert text.count("--name ") == len(search_attributes.TYPES)
