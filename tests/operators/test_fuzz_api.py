"""Whatever the description of the API can make: only the answers it documents, of the shape it documents."""

import asyncio
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from temporalio.client import WorkflowHandle

from ingress.control import PREFIX
from tests.operators.harness import Apis

EXAMPLES = 5


def _calls(document: dict[str, Any], base: str, token: str) -> int:
    """Makes calls of every operation, good and bad ones, and checks each answer; how many they were."""
    made = 0
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(found, Ok)
        for mode in GenerationMode:

            @settings(
                max_examples=EXAMPLES,
                database=None,
                derandomize=True,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=found.ok().as_strategy(generation_mode=mode))
            def call(case: Case[Any]) -> None:
                nonlocal made
                made += 1
                if isinstance(case.query, dict):
                    case.query.pop("cursor", None)  # Valid ones come from the page before only.
                case.call_and_validate(base_url=base, headers={"Authorization": f"Bearer {token}"})

            call()
    return made


async def test_every_call_that_the_description_allows_or_forbids_gets_a_documented_answer(
    api: Apis, control: WorkflowHandle[Any, Any]
) -> None:
    document = (await api.nobody.http.get(f"{PREFIX}/openapi.json")).json()
    base = str(api.nobody.http.base_url).rstrip("/")
    assert await asyncio.to_thread(_calls, document, base, api.admin.token) > 9 * EXAMPLES
