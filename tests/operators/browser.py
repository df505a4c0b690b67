"""A headless Chromium of this machine; tests that need one skip where there is none."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """The program's path, from CCWEB_TEST_CHROMIUM or PATH; skips the test when there is none."""
    named = os.environ.get("CCWEB_TEST_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium: install the package `chromium`, or set CCWEB_TEST_CHROMIUM to its path")
    return found


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    path = chromium()
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()
