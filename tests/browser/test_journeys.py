"""What somebody does with the dashboard, in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

from browser.conftest import Look
from cotenant_api import errors
from cotenant_dashboard.watching.reviews import Verdict
from cotenant_dashboard.web import app
from cotenant_e2e.dashboard import browser, serving, world

HOSTILE = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>'


def test_gpus_queue_policy_and_sums_are_shown(dashboard: serving.Dashboard, cluster: world.World, look: Look) -> None:
    page = look(dashboard.url)
    expect(page.locator(".node h3")).to_have_text(["a10-1", "h200-0", "t4-2"])
    expect(page.locator("#line")).to_have_text("Live")
    expect(page.locator("#badges")).to_have_text("Simulated GPUs")
    expect(page.locator("table.bars tbody tr")).to_have_count(24)
    expect(page.locator("#queue li")).to_have_count(6)
    expect(page.locator("#queue li .position")).to_have_text(["1", "2", "3", "4", "5", "6"])
    expect(page.locator("#policy")).to_contain_text("FirstFit: the first GPU that fits")
    expect(page.locator("#namespaces")).to_contain_text("since this dashboard began")
    expect(page.locator(".figure-waiting .big")).to_have_text("6")
    expect(page.locator("#accuracy svg [class^=dot]").first).to_be_attached()
    told = page.request.get(f"{dashboard.url}api/page").json()["parts"]["node/h200-0"]["gpus"][0]
    row = page.locator(".node", has=page.get_by_role("heading", name="h200-0")).locator("tbody tr").first
    figures = [str(told["bookedShare"]), f"{told['predictedPercent']:.0f}", str(told["utilizationPercent"])]
    expect(row.locator("td.figure")).to_have_text(figures)
    bar = row.locator(".bar").bounding_box()
    first = row.locator(".tenant").first.bounding_box()
    assert bar is not None
    assert first is not None
    share = told["tenants"][0]["booked"]["share"]
    assert first["width"] == pytest.approx(bar["width"] * share / 100, abs=1)


def test_what_happens_in_the_cluster_shows_at_once(
    dashboard: serving.Dashboard, cluster: world.World, look: Look
) -> None:
    page = look(dashboard.url)
    expect(page.locator("#queue li")).to_have_count(6)
    cluster.end(node="h200-0", index=0)
    cluster.add("vision", "fresh", node="h200-0", index=0)
    cluster.wait("vision", "stuck", position=7, said=("TenantLimit", "24 GPUs have 3 pods"))
    cluster.tell("t4-2", ready=False)
    row = page.locator(".node", has=page.get_by_role("heading", name="h200-0")).locator("tbody tr").first
    expect(row.locator(".tenant")).to_have_text(["fresh"])
    expect(page.locator("#queue li").last).to_contain_text("TenantLimit 24 GPUs have 3 pods; 7th in the queue")
    down = page.locator(".node", has=page.get_by_role("heading", name="t4-2"))
    expect(down.locator(".problem")).to_have_text("Not ready: KubeletUnreachable: kubelet does not answer")
    dashboard.live.store.pods().failed(errors.TemporaryError("GET /api/v1/pods: no answer", delay_seconds=1))
    expect(page.locator("#problems")).to_contain_text("pods may be old: GET /api/v1/pods: no answer")


def test_a_job_is_explained_in_the_words_of_why_and_again_when_they_change(
    dashboard: serving.Dashboard, cluster: world.World, look: Look
) -> None:
    page = look(dashboard.url)
    cluster.wait("vision", "stuck", position=7, said=("TenantLimit", "24 GPUs have 3 pods"))
    page.get_by_role("button", name="vision/stuck").click()
    detail = page.locator("#detail")
    expect(detail.locator(".facts")).to_contain_text("TenantLimit: 24 GPUs have 3 pods; 7th in the queue")
    expect(detail).to_contain_text("cotenant why vision/stuck")
    cluster.wait("vision", "stuck", position=1, said=("WaitingForTurn", "others go first"))
    expect(detail.locator(".facts")).to_contain_text("WaitingForTurn: others go first; 1st in the queue")
    again = look(page.url)  # the address names it
    expect(again.locator("#detail-title")).to_have_text("vision/stuck")
    detail.get_by_role("button", name="Close").click()
    expect(detail).to_be_hidden()
    expect(page.get_by_role("button", name="vision/stuck")).to_be_focused()


@pytest.mark.parametrize("address", ["#job=%/x", "#job=vision/%E0%A4%A", "#job=/", "#job=a/b/c"])
def test_an_address_that_names_no_job_shows_the_page_all_the_same(
    dashboard: serving.Dashboard, cluster: world.World, look: Look, address: str
) -> None:
    page = look(f"{dashboard.url}{address}")
    expect(page.locator("#queue li")).to_have_count(6)
    expect(page.locator("#detail")).to_be_hidden()


def test_all_can_be_done_with_keys_alone(dashboard: serving.Dashboard, cluster: world.World, look: Look) -> None:
    page = look(dashboard.url)
    expect(page.locator("table.bars tbody tr")).to_have_count(24)
    expect(page.locator("button.tenant[tabindex='0']")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to GPUs")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    first = page.locator("button.tenant[tabindex='0']")
    expect(first).to_be_focused()
    outline = first.evaluate("node => getComputedStyle(node).outlineStyle")
    assert outline == "solid"
    name = first.get_attribute("aria-label")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") != name
    page.keyboard.press("ArrowUp")
    expect(first).to_have_attribute("aria-label", str(name))
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("#detail-title")).to_be_focused()
    expect(page.locator("#detail-title")).to_have_text(str(name).split(":")[0])
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    expect(first).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#words")).to_be_focused()


def test_a_key_that_is_pressed_while_a_job_is_being_closed_is_not_lost(
    dashboard: serving.Dashboard, cluster: world.World, look: Look
) -> None:
    page = look(dashboard.url)
    expect(page.locator("table.bars tbody tr")).to_have_count(24)
    page.locator("button.tenant").first.click()
    expect(page.locator("#detail-title")).to_be_focused()
    # Both before the browser comes to tell that the dialog was closed, as with fast fingers and a slow machine.
    focused = page.evaluate(
        """async () => {
          const closed = new Promise((done) => {
            document.getElementById("detail").addEventListener("close", () => setTimeout(done));
          });
          for (const key of ["Escape", "/"]) {
            const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
            document.activeElement.dispatchEvent(event);
          }
          await closed;
          return document.activeElement.id;
        }"""
    )
    assert focused == "words"


def test_a_filter_shows_what_matches_by_node_namespace_and_job(
    dashboard: serving.Dashboard, cluster: world.World, look: Look
) -> None:
    cluster.end(node="a10-1", index=3)
    cluster.add("rare", "needle-7", node="a10-1", index=3)
    page = look(dashboard.url)
    rows = page.locator("table.bars tbody tr:not([hidden])").and_(page.locator(":visible"))
    expect(rows).to_have_count(24)
    page.get_by_label("Filter", exact=True).fill("NEEDLE a10")
    expect(rows).to_have_count(1)
    expect(page.locator("#found")).to_have_text("1 of 24 GPUs")
    expect(page.locator("#no-queue")).to_have_text("No waiting job matches.")
    page.get_by_label("Filter", exact=True).fill("")
    expect(rows).to_have_count(24)
    page.get_by_label("Namespace", exact=True).select_option("rare")
    expect(rows).to_have_count(1)
    page.get_by_label("Namespace", exact=True).select_option("")
    page.get_by_label("Node", exact=True).select_option("t4-2")
    expect(rows).to_have_count(8)
    cluster.stir(3)
    expect(page.locator(".node:visible h3")).to_have_text(["t4-2"])


def test_a_server_that_is_killed_and_begun_again_is_found_again(look: Look) -> None:
    with serving.dashboard() as first:
        world.World(first.live.store, nodes=3)
        page = look(first.url)
        expect(page.locator(".node")).to_have_count(3)
    expect(page.locator("#line")).to_contain_text("No connection")
    expect(page.locator(".node")).to_have_count(3)
    with serving.dashboard(port=first.port) as second:
        world.World(second.live.store, nodes=2)
        expect(page.locator("#line")).to_have_text("Live", timeout=15_000)
        expect(page.locator(".node")).to_have_count(2)


def test_words_from_the_cluster_are_never_markup(
    dashboard: serving.Dashboard, cluster: world.World, look: Look
) -> None:
    cluster.wait("vision", "stuck", position=7, said=("TenantLimit", HOSTILE))
    page = look(dashboard.url)
    expect(page.locator("#queue li").last).to_contain_text(HOSTILE)
    page.get_by_role("button", name="vision/stuck").click()
    expect(page.locator("#detail .facts")).to_contain_text(HOSTILE)
    assert page.evaluate("window.owned") is None
    assert page.locator("main img[src=x]").count() == 0


def test_the_theme_is_the_systems_until_somebody_chooses(
    dashboard: serving.Dashboard, cluster: world.World, look: Look
) -> None:
    page = look(dashboard.url, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    button = page.get_by_role("button", name=re.compile("Theme"))
    button.click()
    expect(button).to_have_text("Theme: light")
    assert page.evaluate(ground) != dark
    page.reload()
    expect(button).to_have_text("Theme: light")
    button.click()
    assert page.evaluate(ground) == dark


def test_who_has_to_signs_in_with_a_token(look: Look) -> None:
    settings = app.Settings(verdict=lambda token, _: Verdict.ALLOWED if token == "good" else Verdict.UNKNOWN)
    with serving.dashboard(settings=settings) as made:
        world.World(made.live.store, nodes=1)
        page = look(made.url)
        token = page.get_by_label("Token")
        token.fill("bad")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("no valid token")
        assert page.locator(".node").count() == 0
        token.fill("good")
        token.press("Enter")
        expect(page.locator(".node")).to_have_count(1)
        expect(token).to_be_hidden()
        page.locator("button.tenant").first.click()
        expect(page.locator("#detail .facts")).to_contain_text("Running")


def test_at_320_pixels_nothing_is_cut_off(dashboard: serving.Dashboard, cluster: world.World, look: Look) -> None:
    page = look(dashboard.url, size=browser.NARROW)
    expect(page.locator(".node")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") == browser.NARROW[0]
    page.locator("button.tenant").first.click()
    expect(page.locator("#detail .facts")).to_be_visible()
    assert page.evaluate("document.getElementById('detail').scrollWidth") <= browser.NARROW[0]
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()


def test_nothing_moves_by_itself(dashboard: serving.Dashboard, cluster: world.World, look: Look) -> None:
    page = look(dashboard.url)
    expect(page.locator(".node")).to_have_count(3)
    cluster.end(node="h200-0", index=0)
    cluster.add("vision", "fresh", node="h200-0", index=0)
    expect(page.locator(".tenant", has_text="fresh")).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0
