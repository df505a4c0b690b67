"""The operators' pages over HTTP, before the real Temporal."""

import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from domain.states import TaskState
from ingress.web_auth import COOKIE, SECRET_FILE
from operations.operators import FILE, Operators, Role
from settings import load_settings
from tests.e2e.ingress_harness import SECRET, serving
from tests.workflows.fakes import found
from tests.workflows.test_stops import in_running
from tests.workflows.world import World, eventually

S = TaskState


@pytest.fixture
def operators(state_dir: Path) -> Operators:
    return Operators(state_dir / FILE)


@pytest.fixture
async def web(client: Client, state_dir: Path, operators: Operators) -> AsyncIterator[httpx.AsyncClient]:
    settings = load_settings(
        webhook_secrets=SECRET, state_dir=state_dir, gitea_url="http://git.test", temporal_ui_url="http://ui.test"
    )
    async with serving(settings, client) as http:
        yield http


async def sign_in(web: httpx.AsyncClient, operators: Operators, role: Role, name: str = "ada") -> None:
    answer = await web.post("/login", data={"token": operators.add(name, role)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def form_of(web: httpx.AsyncClient, action: str, target: str = "") -> dict[str, str]:
    page = await web.get("/act", params={"action": action, "target": target})
    assert page.status_code == 200, page.text
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))


async def test_nobody_sees_anything_without_signing_in(web: httpx.AsyncClient) -> None:
    for path in ("/", "/tasks", "/tasks/gitea-task-ffffffffffffffff", "/act?action=pause", "/parts/overview"):
        answer = await web.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert (await web.get("/live")).status_code == 401
    assert (await web.post("/act", data={"action": "pause"})).status_code == 401


async def test_a_wrong_token_is_refused_and_not_shown_again(web: httpx.AsyncClient, operators: Operators) -> None:
    operators.add("ada", Role.ADMIN)
    answer = await web.post("/login", data={"token": "ccweb_guess"})
    assert answer.status_code == 401 and COOKIE not in answer.cookies
    assert "ccweb_guess" not in answer.text


async def test_the_cookie_cannot_be_read_by_scripts_nor_sent_by_other_sites(
    web: httpx.AsyncClient, operators: Operators, state_dir: Path
) -> None:
    token = operators.add("ada", Role.VIEWER)
    answer = await web.post("/login", data={"token": token})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert token not in answer.headers["set-cookie"]
    kept = load_settings(state_dir=state_dir).secret_dir / SECRET_FILE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [path.name for path in state_dir.rglob("*web-secret*")] == [SECRET_FILE]
    assert (await web.get("/")).status_code == 200


async def test_a_removed_operator_is_signed_out_at_once(web: httpx.AsyncClient, operators: Operators) -> None:
    await sign_in(web, operators, Role.VIEWER)
    assert (await web.get("/")).status_code == 200
    operators.remove("ada")
    assert (await web.get("/")).headers["location"] == "/login"
    operators.add("ada", Role.ADMIN)
    assert (await web.get("/")).headers["location"] == "/login"


async def test_a_cookie_of_another_host_is_worth_nothing(web: httpx.AsyncClient, operators: Operators) -> None:
    await sign_in(web, operators, Role.VIEWER)
    name, _, signature = str(web.cookies[COOKIE]).rpartition(".")
    web.cookies.set(COOKIE, f"{name}.{signature[::-1]}")
    assert (await web.get("/")).status_code == 303


async def test_pages_allow_no_inline_scripts_and_no_frames(web: httpx.AsyncClient, operators: Operators) -> None:
    await sign_in(web, operators, Role.VIEWER)
    for path in ("/", "/login", "/tasks", "/tasks/gitea-task-ffffffffffffffff"):
        answer = await web.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert "<script>" not in answer.text and " style=" not in answer.text and " onclick" not in answer.text


async def test_the_overview_shows_what_runs_waits_and_failed(
    web: httpx.AsyncClient, operators: Operators, world: World
) -> None:
    world.fakes.plan("verify_reply", found("question"))
    asking = await world.deliver(world.event(issue=1))
    await world.reaches(asking, S.WAITING_USER)
    gone = await world.deliver(world.event(issue=2))
    await world.end(gone)
    await sign_in(web, operators, Role.VIEWER)

    async def shown() -> bool:
        page = (await web.get("/parts/overview")).text
        return asking.id in page and gone.id in page

    await eventually(shown)
    page = (await web.get("/?lang=en")).text
    waiting = page.split('id="waiting"')[1].split("</section>")[0]
    assert asking.id in waiting and gone.id not in waiting
    assert "No worker runs" in page and "/act?action=pause" not in page


async def test_text_from_gitea_is_escaped(web: httpx.AsyncClient, operators: Operators, world: World) -> None:
    task = await world.deliver(world.event("<script>alert(1)</script> & <img src=x onerror=y>"))
    await world.end(task)
    await sign_in(web, operators, Role.VIEWER)
    page = (await web.get(f"/tasks/{task.id}")).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;img" in page
    assert "<script>alert" not in page and "<img" not in page


async def test_a_task_leads_to_its_comment_in_gitea_and_its_history(
    web: httpx.AsyncClient, operators: Operators, world: World
) -> None:
    task = await world.deliver(world.event())
    await world.end(task)
    await sign_in(web, operators, Role.VIEWER)
    page = (await web.get(f"/tasks/{task.id}")).text
    repo = world.event().repo_key.removeprefix("default:")
    assert f'href="http://git.test/{repo}/issues/1#issuecomment-7"' in page
    assert f'href="http://ui.test/namespaces/default/workflows/{task.id}"' in page
    for state in ("queued", "preparing", "running", "verifying the answer", "succeeded"):
        assert f">{state}</span>" in page


async def test_an_operator_aborts_with_a_reason_and_a_viewer_cannot(
    web: httpx.AsyncClient, operators: Operators, world: World
) -> None:
    task = await in_running(world)
    await sign_in(web, operators, Role.VIEWER, "eve")
    refused = await web.get("/act", params={"action": "abort", "target": task.id})
    assert refused.status_code == 403
    assert f"target={task.id}" not in (await web.get(f"/tasks/{task.id}")).text

    await sign_in(web, operators, Role.OPERATOR)
    assert f"action=abort&amp;target={task.id}" in (await web.get(f"/tasks/{task.id}")).text
    form = await form_of(web, "abort", task.id)
    answer = await web.post("/act", data={**form, "reason": "wrong branch"})
    assert answer.headers["location"] == f"/tasks/{task.id}?done=taken"
    again = await web.post("/act", data={**form, "reason": "wrong branch"})
    assert again.headers["location"].startswith(f"/tasks/{task.id}")
    ended = await world.end(task)
    assert (ended.state, ended.reason) == (S.ABORTED, "wrong branch")
    assert "admin:ada" in (await web.get(f"/tasks/{task.id}")).text


async def test_a_form_without_its_token_or_from_another_site_changes_nothing(
    web: httpx.AsyncClient, operators: Operators, world: World
) -> None:
    task = await in_running(world)
    await sign_in(web, operators, Role.OPERATOR)
    form = {**await form_of(web, "abort", task.id), "reason": "x"}
    wrong = [
        ({**form, "csrf": "guess"}, {}, 403),
        ({**form, "csrf": ""}, {}, 403),
        (form, {"sec-fetch-site": "cross-site"}, 403),
        (form, {"origin": "http://evil.test"}, 403),
        ({**form, "reason": " "}, {}, 400),
        ({**form, "requestId": "no id"}, {}, 400),
        ({**form, "reason": "x" * 20_000}, {}, 413),
    ]
    for data, headers, status in wrong:
        answer = await web.post("/act", data=data, headers=headers)
        assert answer.status_code == status, (data, headers)
    assert await world.state(task) == S.RUNNING
    world.fakes.open_gate("turn")
    await world.end(task)


async def test_an_action_that_is_no_longer_legal_says_so(
    web: httpx.AsyncClient, operators: Operators, world: World
) -> None:
    task = await world.deliver(world.event())
    await world.end(task)
    await sign_in(web, operators, Role.OPERATOR)
    answer = await web.post("/act?lang=en", data={**await form_of(web, "cancel", task.id), "reason": "late"})
    assert answer.status_code == 409
    assert "legal in" in answer.text


async def test_the_language_follows_the_browser_and_the_choice(web: httpx.AsyncClient) -> None:
    for header, word in (("zh-CN,zh;q=0.9,en;q=0.8", "登录"), ("en;q=0.9,zh;q=0.3", "Sign in"), ("fr", "Sign in")):
        assert f"<h1>{word}</h1>" in (await web.get("/login", headers={"accept-language": header})).text
    assert "<h1>登录</h1>" in (await web.get("/login?lang=zh")).text
    assert "<h1>登录</h1>" in (await web.get("/login", headers={"accept-language": "en"})).text


async def test_an_unknown_file_is_not_served(web: httpx.AsyncClient) -> None:
    assert (await web.get("/static/style.css")).headers["content-type"].startswith("text/css")
    for name in ("nothing.css", "..%2Fweb.py", "%2e%2e", "..%2Ftemplates%2Fbase.html"):
        assert (await web.get(f"/static/{name}")).status_code == 404


async def test_a_page_is_told_that_something_changed(
    web: httpx.AsyncClient, operators: Operators, world: World
) -> None:
    task = await in_running(world)
    await sign_in(web, operators, Role.VIEWER)
    async with web.stream("GET", "/live", params={"task": task.id}) as events:
        lines = events.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        world.fakes.open_gate("turn")
        while await anext(lines) != "event: changed":
            pass
    await world.end(task)
