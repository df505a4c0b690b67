"""Reading the arguments of signals: anything may come, and a handler must never raise."""

from typing import Any, TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], raw: Any) -> Model | None:
    """The record of a signal's argument; None for junk."""
    try:
        return model.model_validate(raw)
    except ValidationError:
        return None
