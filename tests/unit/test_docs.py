"""The reference follows the code."""

from pathlib import Path

import pytest
from pydantic import BaseModel

import reference
from domain import search_attributes
from domain.audit import AuditEvent
from operations import records
from settings import reference as settings_reference

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_every_setting_is_in_the_reference_with_its_default() -> None:
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    documented = [line for line in text.splitlines() if line.startswith("| `CCWEB_")]
    assert documented == ["| `{}` | {} | {} |".format(*row) for row in settings_reference()]


def test_every_search_attribute_is_in_the_reference() -> None:
    text = (REFERENCE / "search-attributes.md").read_text(encoding="utf-8")
    assert all(f"--name {name} --type {kind}\n" in text for name, kind in search_attributes.TYPES.items())
    assert text.count("--name ") == len(search_attributes.TYPES)


@pytest.mark.parametrize("page", reference.pages())
def test_pages_made_from_the_code_are_up_to_date(page: str) -> None:
    made = reference.pages()[page]
    assert (REFERENCE / page).read_text(encoding="utf-8") == made, "run: python reference.py"


def test_every_field_that_operators_see_is_in_the_page_of_records() -> None:
    text = (REFERENCE / "records.md").read_text(encoding="utf-8")
    models: list[type[BaseModel]] = [
        AuditEvent,
        records.TaskDetail,
        records.TurnView,
        records.CommentView,
        records.ControlView,
    ]
    missing = {
        field.alias for model in models for field in model.model_fields.values() if f"`{field.alias}`" not in text
    }
    assert not missing
