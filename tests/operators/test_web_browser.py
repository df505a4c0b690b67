"""The operators' pages in a real headless Chromium: live, by keyboard, on a phone, dark and light."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect
from temporalio.client import Client, WorkflowHandle

from domain.errors import ErrorCode
from domain.events import Spend
from domain.states import TaskState
from operations.operators import FILE, Operators, Role
from settings import load_settings
from tests.e2e.ingress_harness import SECRET, serving
from tests.operators.browser import browsing
from tests.workflows.fakes import _outcome, found
from tests.workflows.test_stops import in_running
from tests.workflows.world import World, eventually

S = TaskState
SHOTS = os.environ.get("CCWEB_TEST_SCREENSHOTS")
"""A folder to keep screenshots in, for people to look at."""


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as ready:
        yield ready


class Site:
    """The pages' address, a token, and pages that say what the browser complained about."""

    def __init__(self, browser: Browser, address: str, token: str) -> None:
        self.browser, self.address, self.token = browser, address, token
        self.complaints: list[str] = []

    async def page(self, scheme: Literal["light", "dark"] = "light", width: int = 1200, locale: str = "en") -> Page:
        context = await self.browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 800}, locale=locale
        )
        page = await context.new_page()
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        await page.goto(f"{self.address}/login")
        await page.keyboard.type(self.token)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{self.address}/")
        return page


@pytest.fixture
async def site(browser: Browser, client: Client, state_dir: Path) -> AsyncIterator[Site]:
    settings = load_settings(webhook_secrets=SECRET, state_dir=state_dir, temporal_ui_url="http://ui.test")
    token = Operators(state_dir / FILE).add("ada", Role.ADMIN)
    async with serving(settings, client) as http:
        ready = Site(browser, str(http.base_url), token)
        yield ready
        await browser.close()
    assert ready.complaints == []


async def paid(request: Any) -> Any:
    return _outcome(request).model_copy(update={"spent": Spend(minutes=3, tokens=9000, cost=1.25)})


async def varied(world: World) -> WorkflowHandle[Any, Any]:
    """One task that ended and cost something, one that waits for a person, one that failed, one blocked, and one
    that runs, which is returned.
    """
    world.fakes.plan("run_turn", paid)
    await world.end(await world.deliver(world.event(issue=1)))
    world.fakes.plan("verify_reply", found("question"), found("missing"))
    await world.reaches(await world.deliver(world.event(issue=2)), S.WAITING_USER)
    world.fakes.plan("run_turn", ErrorCode.MCP_START_FAILED)
    await world.end(await world.deliver(world.event(issue=3)))
    world.fakes.plan("prepare_workspace", ErrorCode.WORKSPACE_DIRTY)
    await world.reaches(await world.deliver(world.event(issue=4)), S.BLOCKED_WORKSPACE)
    return await in_running(world)


async def keep(page: Page, name: str) -> None:
    if SHOTS:
        await page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


async def fits(page: Page) -> bool:
    """Nothing makes the page itself wider than the screen."""
    return bool(await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


async def test_a_page_changes_by_itself_when_a_task_does(site: Site, world: World) -> None:
    task = await in_running(world)
    page = await site.page()
    await page.goto(f"{site.address}/tasks/{task.id}")
    await expect(page.locator(".head .badge")).to_have_text("running")
    world.fakes.open_gate("turn")
    await world.end(task)
    await expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=15_000)


async def test_an_operator_aborts_a_task_by_keyboard_alone(site: Site, world: World) -> None:
    task = await in_running(world)
    page = await site.page()
    await page.goto(f"{site.address}/tasks/{task.id}")
    for _ in range(30):
        await page.keyboard.press("Tab")
        focused = await page.evaluate("document.activeElement.textContent.trim()")
        if focused == "Abort":
            break
    outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert (focused, outline) == ("Abort", "solid")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/act?**")
    await page.keyboard.type("wrong branch")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/tasks/**")
    ended = await world.end(task)
    assert (ended.state, ended.reason) == (S.ABORTED, "wrong branch")


@pytest.mark.parametrize(
    ("name", "scheme", "width", "locale"),
    [("light", "light", 1200, "en"), ("dark", "dark", 1200, "zh-CN"), ("phone", "dark", 360, "zh-CN")],
)
async def test_every_page_fits_and_can_be_read(
    site: Site, world: World, name: str, scheme: Literal["light", "dark"], width: int, locale: str
) -> None:
    task = await varied(world)
    page = await site.page(scheme, width, locale)
    for place, path in (
        ("overview", "/"),
        ("tasks", "/tasks"),
        ("task", f"/tasks/{task.id}"),
        ("act", f"/act?action=abort&target={task.id}"),
    ):
        await page.goto(site.address + path)
        await page.wait_for_selector("h1")
        await keep(page, f"{place}-{name}")
        assert await fits(page), place
        assert await _faint(page) == [], place
    world.fakes.open_gate("turn")
    await world.end(task)


async def test_the_cost_of_a_repository_is_in_the_chart(site: Site, world: World) -> None:
    task = await varied(world)
    page = await site.page()
    repo = world.event().repo_key.removeprefix("default:")

    async def drawn() -> bool:
        await page.goto(site.address)
        return await page.locator(".chart rect title").filter(has_text=f"{repo} ").count() == 1

    await eventually(drawn)
    world.fakes.open_gate("turn")
    await world.end(task)


async def _faint(page: Page) -> list[str]:
    """Texts whose contrast with what is behind them is below 4.5 (WCAG AA)."""
    faint: list[str] = await page.evaluate(_CONTRAST)
    return faint


_CONTRAST = """() => {
  const light = c => {
    const v = c.slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const parts = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const behind = node => { for (let at = node; at; at = at.parentElement) {
    const c = parts(getComputedStyle(at).backgroundColor); if (c.length < 4 || c[3] > 0) return c; }
    return [255, 255, 255]; };
  const found = [];
  for (const node of document.querySelectorAll('main *, header *')) {
    const said = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!said || node.closest('svg') || !node.getClientRects().length) continue;
    const [a, b] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) found.push(node.textContent.trim().slice(0, 40) + ' ' + ratio.toFixed(2));
  }
  return found;
}"""
