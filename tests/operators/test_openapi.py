"""The description of the API is true, and bodies are bounded."""

from typing import Any

import pytest

from ingress import examples
from ingress.control import PREFIX
from operations.records import AuditPage, ControlResult, Overview, TaskDetail, TaskPage, View
from tests.operators.harness import Apis


async def document(api: Apis) -> dict[str, Any]:
    answer = await api.nobody.http.get(f"{PREFIX}/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_every_answer_of_every_route_has_an_example_or_a_code(api: Apis) -> None:
    described = await document(api)
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) == 9
    for operation in operations:
        assert operation["description"] and operation["security"] == [{"HTTPBearer": []}]
        assert "422" not in operation["responses"]
        for status, answer in operation["responses"].items():
            [content] = answer["content"].values()
            assert content.get("example") or content["examples"], (operation["operationId"], status)
            for code, sample in content.get("examples", {}).items():
                assert sample["value"]["code"] == code and sample["value"]["status"] == int(status)


async def test_no_call_takes_anything_but_an_id_and_a_reason(api: Apis) -> None:
    described = await document(api)
    assert set(described["components"]["schemas"]["Call"]["properties"]) == {"requestId", "reason"}
    assert described["components"]["schemas"]["Call"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("record", "sample"),
    [
        (Overview, examples.OVERVIEW),
        (TaskPage, examples.TASKS),
        (TaskDetail, examples.TASK),
        (AuditPage, examples.AUDIT),
        (ControlResult, examples.RESULT),
    ],
)
def test_examples_are_whole_records(record: type[View], sample: dict[str, Any]) -> None:
    assert record.model_validate(sample).shown() == sample


async def test_a_body_that_is_too_large_or_no_json_is_refused(api: Apis) -> None:
    path = f"{PREFIX}/control/pause"
    headers = {"authorization": f"Bearer {api.admin.token}", "content-type": "application/json"}
    large = await api.nobody.http.post(path, content=b"[" * 70_000, headers=headers)
    assert (large.status_code, large.json()["code"]) == (413, "payload_too_large")
    for body in (b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 60_000, b'{"requestId":1e999,"reason":"r"}'):
        answer = await api.nobody.http.post(path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    plain = await api.nobody.http.post(
        path, content=b'{"requestId":"x","reason":"r"}', headers={**headers, "content-type": "text/plain"}
    )
    assert plain.status_code == 400
