"""A headless Chromium that tests drive."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

PATIENCE_S = 30.0
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


class Chromium:
    """One tab."""

    def __init__(self, url: str) -> None:
        self.url = url
        options = webdriver.ChromeOptions()
        options.binary_location = _installed("chromium")
        for option in _OPTIONS:
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options, Service(_installed("chromedriver")))
        self.resize(1280, 900)

    def open(self, path: str) -> None:
        """Load a page."""
        self.driver.get(self.url + path)

    def resize(self, width: int, height: int) -> None:
        """Emulate a window of this size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Emulate the preference of the system: `dark` or `light`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab(self) -> None:
        """Press Tab."""
        self.keys(Keys.TAB)

    def find(self, selector: str) -> WebElement:
        """The first element of a selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click on an element."""
        self.find(selector).click()

    def fill(self, selector: str, text: str) -> None:
        """Type into a field, in place of its text."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.driver.execute_script(f"return {script}")

    def text(self, selector: str = "main") -> str:
        """The visible text of an element; empty while it is not there."""
        return str(self.run(f"document.querySelector('{selector}')?.innerText ?? ''"))

    def wait(self, script: str) -> None:
        """Wait until an expression in the page is true."""
        wait_for(lambda: self.run(script), script, PATIENCE_S, lambda: self.text()[:2_000])

    def errors(self) -> list[str]:
        """What the console of the browser has: errors of scripts, violations of the content policy."""
        return [f"{each['level']}: {each['message']}" for each in self.driver.get_log("browser")]

    def picture(self, file: Path) -> None:
        """Save what is visible."""
        self.driver.save_screenshot(str(file))

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()


def _installed(program: str) -> str:
    path = shutil.which(program)
    if path is not None:
        return path
    reason = f"{program} is not installed: apt-get install chromium chromium-driver"
    if os.environ.get("HEADRACE_REQUIRE_KAFKA"):
        pytest.fail(reason)
    pytest.skip(reason)
