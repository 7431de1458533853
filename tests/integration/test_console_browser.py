"""The console in a real Chromium: keyboard, actions without a page load, live tail, colours, a phone."""

import json
from collections.abc import Iterator

import headrace
import pytest
from chromium import Chromium
from headrace.services.console.server import console_server
from headrace.services.web.settings import WebConfig
from selenium.webdriver.common.keys import Keys
from waiting import wait_for

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
LONG = "a-topic-with-a-name-that-is-longer-than-a-phone-is-wide-" * 3


def hostile_record(number: int) -> bytes:
    return json.dumps({"id": number, "text": HOSTILE}).encode()


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(nodes=2) as running:
        running.admin().create_topics(
            *(headrace.NewTopic(name, 2, 2) for name in ("orders", "payments", "clicks", LONG))
        ).raise_for_errors()
        with running.producer() as producer:
            for number in range(20):
                producer.send("orders", hostile_record(number), key=HOSTILE.encode(), partition=0)
            producer.flush()
        with running.consumer("orders", group="billing", auto_offset_reset="earliest") as consumer:
            wait_for(lambda: consumer.poll(0.5), "records")
            consumer.commit()
        yield running


@pytest.fixture(scope="module")
def browser(cluster: headrace.LocalCluster) -> Iterator[Chromium]:
    with console_server(WebConfig(port=0), bootstrap=cluster.bootstrap, name="shop") as server:
        driven = Chromium(server.url)
        yield driven
        driven.close()


@pytest.fixture(autouse=True)
def _no_errors(browser: Chromium) -> Iterator[None]:
    """No error of a script, no violation of the content policy, no hostile script that ran."""
    browser.errors()
    yield
    assert browser.errors() == []
    assert not browser.run("window.hacked")


def test_keyboard_reaches_pages_and_rows(browser: Chromium) -> None:
    """`g t`, `/`, search, `j`, Enter, `?`; the skip link is the first stop, and the focus is visible."""
    browser.open("/")
    browser.tab()
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.keys(Keys.ENTER)
    browser.wait("location.hash === '#content'")
    browser.keys("g", "t")
    browser.wait("location.pathname === '/topics' && document.readyState === 'complete'")
    browser.run("window.marked = 1")
    browser.keys("/")
    browser.wait("document.activeElement.name === 'q'")
    browser.keys("PAY")
    browser.wait("document.querySelectorAll('#rows tbody tr').length === 1")
    assert browser.run("window.marked") == 1, "the search has loaded a whole page"
    assert browser.run("location.search").startswith("?q=PAY")
    browser.keys(Keys.ESCAPE, "j", Keys.ENTER)
    browser.wait("location.pathname === '/topics/payments' && document.readyState === 'complete'")
    browser.keys("?")
    browser.wait("document.getElementById('keys').open")
    browser.keys(Keys.ESCAPE)
    browser.wait("!document.getElementById('keys').open")


def test_forms_create_and_delete_a_topic(browser: Chromium, cluster: headrace.LocalCluster) -> None:
    browser.open("/new-topic")
    browser.fill("[name=name]", "made")
    browser.fill("[name=partitions]", "1")
    browser.click("main form button.primary")
    browser.wait("location.pathname === '/topics/made'")
    assert "topic made is created" in browser.text("[role=status]")
    browser.click('.tabs a[href$="/delete"]')
    browser.fill("#delete-topic", "made")
    browser.click('form[action$="/delete"] button')
    browser.wait("location.pathname === '/topics'")
    assert "made" not in {topic.name for topic in cluster.admin().list_topics()}


def test_offsets_are_reset_after_a_dry_run(browser: Chromium, cluster: headrace.LocalCluster) -> None:
    browser.open("/group?id=billing")
    browser.click("main form[action^='/group/reset'] button")
    browser.wait("document.querySelector('h1').innerText.includes('dry run')")
    assert "repeats" in browser.text()
    browser.click("main form button.danger")
    browser.wait("location.pathname === '/group'")
    offsets = cluster.admin().list_group_offsets("billing").values()
    assert {each.offset for each in offsets if each} == {0}


def test_live_tail_shows_appended_records(browser: Chromium, cluster: headrace.LocalCluster) -> None:
    """A filter on the server; hostile records are text; pause closes the stream."""
    browser.open("/topics/orders/tail?where=value.id%20%3E%20100")
    browser.wait("document.getElementById('tail-state').dataset.state === 'open'")
    with cluster.producer() as producer:
        for number in (99, 101, 102):
            producer.send("orders", hostile_record(number), key=HOSTILE.encode(), partition=0)
        producer.flush()
    browser.wait("document.querySelectorAll('[data-tail] tbody tr').length === 2")
    assert HOSTILE in browser.text("[data-tail] tbody .key")
    assert browser.text("#tail-count") == "2"
    browser.click("#tail-pause")
    assert browser.text("#tail-state") == "paused"
    browser.click("#tail-clear")
    browser.wait("!document.getElementById('tail-empty').hidden")


def test_overview_refreshes_itself(browser: Chromium) -> None:
    """htmx replaces the part of the page, again and again."""
    browser.open("/")
    browser.run("document.getElementById('live').setAttribute('data-old', '1')")
    browser.wait("document.getElementById('live') && !document.getElementById('live').dataset.old")


def test_colours_follow_the_system_and_the_switch(browser: Chromium) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.prefer("light")
    browser.open("/topics")
    light = browser.run(background)
    browser.prefer("dark")
    dark = browser.run(background)
    assert light != dark
    browser.click(".foot [data-theme-form] button")
    browser.wait(f"{background} === '{light}'")
    browser.wait("document.querySelector('.foot [data-theme-form] [name=theme]').value === 'dark'")
    wait_for(
        lambda: browser.open("/nodes") or browser.run("document.documentElement.dataset.theme") == "light",
        "cookie",
    )
    assert browser.run(background) == light
    browser.click(".foot [data-theme-form] button")
    browser.wait(f"{background} === '{dark}'")
    browser.prefer("light")
    assert browser.run(background) == dark


def test_pages_fit_on_a_phone(browser: Chromium) -> None:
    """No page of 375 px scrolls to the side; the menu opens."""
    browser.resize(375, 800)
    for path in (
        *(
            "/",
            "/nodes",
            "/nodes/1",
            "/topics",
            "/topics/orders",
            f"/topics/{LONG}",
            "/topics/orders/messages",
        ),
        *(
            "/topics/orders/0/1",
            "/topics/orders/configs?all=1",
            "/topics/orders/delete",
            "/topics/orders/tail",
        ),
        *(
            "/topics/orders/produce",
            "/groups",
            "/group?id=billing",
            "/transactions",
            "/hanging",
            "/moves",
            "/quotas",
        ),
        *("/acls", "/users", "/telemetry", "/events", "/streams", "/new-topic"),
    ):
        browser.open(path)
        assert browser.run("document.documentElement.scrollWidth") == 375, path
        assert not browser.errors(), path
    browser.click(".menu > summary")
    browser.click('.menu a[href="/groups"]')
    browser.wait("location.pathname === '/groups'")
    browser.resize(1280, 900)
