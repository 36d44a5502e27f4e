"""The page in a real Chromium: what a person sees and does.

Chromium is Debian's package; where it is missing, the tests say so and how to get it.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page, Request, expect, sync_playwright
from support.chromium import CHROMIUM, MISSING, OPTIONS

LONG = 120_000  # milliseconds: a crowded machine compiles for a while
LAKE, OWN = "#model=frozen_lake", "#model=own"
DESK = {"width": 1280, "height": 900}

expect.set_options(timeout=LONG)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


@dataclass
class Heard:
    """What a page said in its console, and what it asked for."""

    said: list[str] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)

    def of(self, page: Page) -> Page:
        page.set_default_timeout(LONG)
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request))
        return page


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as drives:
        browser = drives.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def first(chromium):
    """One page for most tests: a new one costs more than loading it again."""
    heard = Heard()
    context = chromium.new_context(viewport=DESK)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    return heard.of(context.new_page()), heard


@pytest.fixture
def visit(chromium, explorer, first):
    """Opens a view; afterwards, nothing was said in the console and nothing asked outside."""
    (page, heard), opened, allowed = first, [], []
    page.goto("about:blank")
    heard.said.clear()
    heard.asked.clear()

    def opens(view: str = LAKE, refused: str = "no refusal", **settings) -> Page:
        allowed.append(refused)  # the console tells of refusals by itself
        shown = page
        if settings or page.url != "about:blank":
            opened.append(chromium.new_context(**{"viewport": DESK, **settings}))
            shown = heard.of(opened[-1].new_page())
        shown.goto(f"{explorer.address}/{view}")
        shown.wait_for_selector("#map[data-drawn]")
        return shown

    yield opens
    for context in opened:
        context.close()
    assert [one for one in heard.said if not any(text in one for text in allowed)] == []
    urls = [one.url for one in heard.asked]
    assert [url for url in urls if not url.startswith((explorer.address, "blob:", "about:"))] == []


def pixels(page: Page) -> str:
    return page.evaluate("document.getElementById('map').toDataURL()")


def redrawn(page: Page, act) -> None:
    """Act, and wait until the map is drawn again."""
    before = page.get_attribute("#map", "data-drawn")
    act()
    expect(page.locator("#map")).not_to_have_attribute("data-drawn", str(before))


def readout(page: Page) -> dict[str, str]:
    """What is said of the state under the cursor, by name."""
    names, values = (page.locator(f"#readout {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def point_at(page: Page, column: int, row: int, of: tuple[int, int] = (4, 4)) -> None:
    """Point at a place of a map, with rows counted from the top."""
    box = page.evaluate("document.getElementById('map').box")
    x = box["x"] + (column + 0.5) * box["w"] / of[0]
    y = box["y"] + (row + 0.5) * box["h"] / of[1]
    page.hover("#map", position={"x": x, "y": y})


def test_a_slider_changes_the_map_and_the_address_holds_the_view(visit):
    page = visit()
    before = pixels(page)
    redrawn(page, lambda: page.fill("#set-slip", "0"))
    assert pixels(page) != before
    assert page.evaluate("JSON.parse(document.getElementById('map').dataset.settings)") == {
        "slip": 0
    }
    page.wait_for_url("**/*set.slip=0*")
    again = visit(page.evaluate("location.hash"))
    assert pixels(again) == pixels(page)
    redrawn(page, lambda: page.click("#reset"))
    assert pixels(page) == before


def test_pointing_and_arrow_keys_tell_of_a_state(visit, explorer):
    page = visit()
    told = explorer.ask("map")
    point_at(page, 2, 1)
    assert readout(page)["state"] == "row 1, column 2"
    assert readout(page)["best move"] == told["model"]["actions"][told["table"][2][1]]
    assert readout(page)["runner-up"] == told["model"]["actions"][told["second"][2][1]]
    assert float(readout(page)["value"]) == pytest.approx(told["fields"]["value"][2][1], rel=1e-5)
    page.focus("#map")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert readout(page)["state"] == "row 3, column 3"


def test_colours_show_action_value_margin_and_visits(visit):
    page = visit()
    seen = {"action": pixels(page)}
    for kind in ("value", "margin", "visits"):
        redrawn(page, lambda kind=kind: page.check(f"#colour input[value={kind}]", force=True))
        seen[kind] = pixels(page)
        expect(page.locator("#legend .ramp")).to_be_visible()
    assert len(set(seen.values())) == 4
    expect(page.locator("#colour input[value=loss]")).to_be_disabled()


def test_of_four_axes_two_are_shown_and_the_others_have_sliders(visit):
    page = visit(OWN)
    before = pixels(page)
    expect(page.locator("#slices .slice")).to_have_count(2)
    redrawn(page, lambda: page.fill("#at-wait", "1"))
    assert pixels(page) != before
    redrawn(page, lambda: page.select_option("#shown select >> nth=0", "wait"))
    expect(page.locator("#slices label")).to_have_text(["left", "green"])
    point_at(page, 1, 1, of=(2, 4))
    assert readout(page)["state"] == "left 0, right 2, green left, wait 1"


def test_a_model_of_ones_own_has_a_slider_for_each_parameter(visit):
    page = visit(OWN)
    expect(page.locator("#model option:checked")).to_have_text("crossing")
    before = pixels(page)
    redrawn(page, lambda: page.fill("#set-price", "8"))
    assert pixels(page) != before


@pytest.mark.parametrize("address", ["#model=nonsense&set.slip=0.1", "?model=nonsense"])
def test_an_unknown_model_in_the_address_is_said_to_be_unknown_with_what_to_do(visit, address):
    page = visit(address)
    said = page.locator("#unknown")
    expect(said).to_contain_text("No model here is called “nonsense”. Choose one from the list")
    expect(said).to_contain_text("tessella explore MODEL")
    expect(said).to_contain_text("Shown instead is INV-Mix.")
    expect(page).to_have_url(re.compile(r"/#model=INV-Mix$"))
    redrawn(page, lambda: page.select_option("#model", "frozen_lake"))
    expect(said).to_be_hidden()


def test_a_known_model_may_stand_in_the_address_either_way(visit):
    page = visit("?model=frozen_lake")
    expect(page.locator("#model")).to_have_value("frozen_lake")
    expect(page.locator("#unknown")).to_be_hidden()


def test_geometry_and_structure_stand_beside_the_map(visit, explorer):
    page = visit()
    told = explorer.ask("structure")
    holds = [one["name"] for one in told["structures"] if one["holds"]]
    expect(page.locator("#panel-facts .tests .holds")).to_have_count(len(holds))
    expect(page.locator("#panel-facts")).to_contain_text("numerical error of values, at most")
    convex = page.locator("#panel-facts .tests li", has_text="orthogonally convex")
    expect(convex).to_have_attribute("title", re.compile("line along an axis .* in one piece"))
    cells = page.locator("#panel-facts .figures div", has=page.get_by_text("cells", exact=True))
    expect(cells.locator("dd")).to_have_text(str(told["geometry"]["region_components"]))


def test_a_rule_is_drawn_explained_and_taken_away_as_c_that_compiles(visit, tmp_path):
    page = visit(f"{LAKE}&tab=rule&rule.seconds=1")
    before = pixels(page)
    page.fill("#loss-limit", "12")  # half of all may be lost
    redrawn(page, lambda: page.click("#compress"))
    page.wait_for_selector("#downloads")
    assert pixels(page) != before
    expect(page.locator("#rule pre.words")).to_contain_text("Guaranteed loss")
    expect(page.locator("#legend")).to_contain_text("the rule")
    expect(page.locator(".frontier .chosen")).to_have_count(1)
    page.click("#rule summary >> text=The certificate")
    expect(page.locator("#rule details pre")).to_contain_text("loss")
    with page.expect_download() as handed:
        page.click("#downloads [data-file='rule.c']")
    handed.value.save_as(tmp_path / "rule.c")
    built = ["gcc", "-std=c99", "-Wall", "-Werror", "-c", "rule.c", "-o", "rule.o"]
    assert subprocess.run(built, cwd=tmp_path).returncode == 0
    redrawn(page, lambda: page.click("#unrule"))
    assert pixels(page) == before
    redrawn(page, lambda: page.click("#compress"))
    redrawn(page, lambda: page.fill("#set-slip", "0.5"))  # the rule was of other settings
    expect(page.locator("#rule")).to_contain_text("The settings have changed")


def test_a_learned_policy_lies_over_the_map_with_its_errors_and_its_loss(visit, explorer):
    page = visit(f"{LAKE}&tab=learn&learn.samples=20&cursor=0,0")
    before = pixels(page)
    page.select_option("#learner", "local")
    page.fill("#noise", "0.5")
    page.fill("#seed", "3")
    redrawn(page, lambda: page.click("#learn"))
    overlay = {"kind": "learned", "learner": "local", "samples": 20, "noise": 0.5, "seed": 3}
    told = explorer.ask("learned", overlay=overlay)
    assert told["errors"] > 0
    expect(page.locator("#learned")).to_contain_text(f"{told['errors']} of 16")
    expect(page.locator("#legend")).to_contain_text("the learned policy")
    seen = {before, pixels(page)}
    exact = explorer.ask("map", overlay=overlay, fields=["loss", "local"])["fields"]
    for kind, name in (("loss", "loss"), ("local", "local loss")):
        redrawn(page, lambda kind=kind: page.check(f"#colour input[value={kind}]", force=True))
        assert float(readout(page)[name]) == pytest.approx(exact[kind][0][0], rel=1e-3)
        seen.add(pixels(page))
    assert len(seen) == 4


def level_facts(page: Page) -> dict[str, str]:
    names, values = (page.locator(f"#level-facts {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_moving_along_a_trade_off_shows_the_policy_of_each_level(visit, explorer):
    page = visit(f"{OWN}&tab=level&cursor=0,0")
    before = pixels(page)
    told = explorer.ask("tradeoff", model="own", measure="jam_share", better="less")
    expect(page.locator("#measure option")).to_have_text(["jam share", "jams", "passing"])
    expect(page.locator("#better")).to_have_value("less")
    redrawn(page, lambda: page.click("#trade"))
    expect(page.locator("#curve .point")).to_have_count(len(told["points"]))
    page.focus("#level")
    redrawn(page, lambda: page.keyboard.press("End"))
    last = told["points"][-1]
    percent = f"{100 * last['level']:.5g}"
    expect(page.locator("#level")).to_have_attribute("aria-valuetext", f"at most {percent} %")
    assert float(level_facts(page)["most reward from the start"]) == pytest.approx(
        last["bound"], rel=1e-5
    )
    assert level_facts(page)["passing"] == "10"  # one in each period, at discount 0.9
    assert pixels(page) != before
    overlay = {
        "kind": "level",
        "measure": "jam_share",
        "better": "less",
        "at": len(told["points"]) - 1,
    }
    drawn = explorer.ask("map", model="own", overlay=overlay)
    assert readout(page)["at this level"] == drawn["model"]["actions"][drawn["overlay"][0][0]]
    page.wait_for_url("**/*level.at=*")
    again = visit(page.evaluate("location.hash"))
    again.wait_for_selector("#curve .ring")
    expect(again.locator("#readout")).to_contain_text("at this level")
    assert readout(again) == readout(page)
    assert pixels(again) == pixels(page)
    redrawn(page, lambda: page.keyboard.press("ArrowLeft"))
    expect(page.locator("#level")).to_have_js_property("value", str(len(told["points"]) - 2))
    redrawn(page, lambda: page.click("#unlevel"))
    assert pixels(page) == before


def test_a_rule_for_a_level_comes_back_with_the_level(visit):
    page = visit(f"{OWN}&tab=level&level.loss=0.1&rule.seconds=5")
    redrawn(page, lambda: page.click("#trade"))
    redrawn(page, lambda: page.fill("#level", "4"))
    policy = pixels(page)
    redrawn(page, lambda: page.click("#level-compress"))
    said = page.locator("#level-rule pre.words")
    expect(said).to_contain_text("Proven: jam_share")
    rule = pixels(page)
    assert rule != policy
    redrawn(page, lambda: page.fill("#level", "3"))
    expect(said).to_have_count(0)
    redrawn(page, lambda: page.fill("#level", "4"))
    expect(said).to_contain_text("Proven: jam_share")
    assert pixels(page) == rule
    redrawn(page, lambda: page.fill("#set-price", "8"))  # the curve was of other settings
    expect(page.locator("#curve")).to_contain_text("The settings have changed")
    expect(page.locator("#levels")).to_be_hidden()


def test_a_level_without_a_rule_keeps_its_policy_on_the_map(visit):
    page = visit(f"{OWN}&tab=level&level.loss=0&rule.seconds=1", refused="status of 400")
    redrawn(page, lambda: page.click("#trade"))
    redrawn(page, lambda: page.fill("#level", "4"))
    policy = pixels(page)
    redrawn(page, lambda: page.click("#level-compress"))
    expect(page.locator("#level-rule .error")).to_contain_text("no rule with jam_share at most")
    assert pixels(page) == policy


def test_a_level_that_is_kept_keeps_its_name_when_another_measure_is_drawn(visit):
    page = visit(f"{OWN}&tab=level", refused="status of 400")
    redrawn(page, lambda: page.click("#trade"))
    redrawn(page, lambda: page.fill("#level", "3"))
    kept = f"jam share {page.inner_text('#level-said')}"
    page.click("#tab-compare")
    page.click("#pin")
    expect(page.locator("#pinned figcaption")).to_have_text(f"Kept: defaults; {kept}")
    page.click("#tab-level")
    page.select_option("#measure", "passing")  # one in each period, whatever is done
    expect(page.locator("#curve .error")).to_contain_text("passing must be able to fall")
    redrawn(page, lambda: page.select_option("#measure", "jams"))
    expect(page.locator("#current figcaption")).to_contain_text("Now: defaults; jams at most")
    expect(page.locator("#pinned figcaption")).to_have_text(f"Kept: defaults; {kept}")
    page.click("#tab-compare")
    expect(page.locator("#change .sides")).to_contain_text("jam share")


def test_measures_of_the_optimal_policy_are_facts(visit, explorer):
    page = visit(OWN)
    (share, *_) = explorer.ask("structure", model="own")["measures"]
    shown = page.locator("#panel-facts .figures div", has=page.get_by_text("jam share"))
    expect(shown.locator("dd")).to_have_text(f"{100 * share['values'][0]:.5g} %")
    lake = visit(f"{LAKE}&tab=level")
    expect(lake.locator("#unmeasured")).to_be_visible()
    expect(lake.locator("#trade")).to_be_disabled()


def test_a_method_that_is_told_transitions_has_no_noise(visit):
    page = visit(f"{LAKE}&tab=learn&learn.samples=25")
    page.select_option("#learner", "tabular_q")
    expect(page.locator("#noise")).to_be_disabled()
    redrawn(page, lambda: page.click("#learn"))
    expect(page.locator("#learned")).to_contain_text("of 16")


def figure(text: str) -> float:
    """A number as the page writes it: ``0.25``, ``1.08 × 10⁻¹²``."""
    return float(text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")).replace(" × 10", "e"))


def sides(page: Page) -> dict[str, list[str]]:
    """The table that sets what was kept beside what is shown now."""
    page.wait_for_selector(".sides")
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator(".sides tr").all()]
    return {name: cells for name, *cells in rows}


def test_two_settings_stand_side_by_side_with_the_money_at_stake(visit, first, explorer):
    page = visit(f"{LAKE}&tab=compare")
    page.click("#pin")
    expect(page.locator("#pinned canvas")).to_be_visible()
    expect(page.locator("#change")).to_contain_text("the same in all 16 states")
    first[1].asked.clear()
    redrawn(page, lambda: page.fill("#set-discount", "0.5"))
    expect(page.locator("#change")).to_contain_text("of 16")
    maps = [one for one in first[1].asked if one.url.endswith("/api/map")]
    assert len(maps) == 1  # what was kept is not asked for again
    expect(page.locator("#pinned figcaption")).to_have_text("Kept: defaults; optimal policy")
    expect(page.locator("#current figcaption")).to_have_text("Now: discount 0.5; optimal policy")
    told = explorer.ask("change", settings={"discount": 0.5}, before={"model": "frozen_lake"})
    table = sides(page)
    worth = [float(cell) for cell in table["worth at least from the start"]]
    assert worth == pytest.approx([told[side]["worth"] for side in ("before", "after")], rel=1e-4)
    assert worth[1] - worth[0] == pytest.approx(told["gain"], abs=1e-5)
    assert table["loses at most"][1] == "nothing"
    page.click("#unpin")
    expect(page.locator("#pinned")).to_be_hidden()


def test_two_rules_stand_side_by_side_with_what_each_surely_loses(visit, explorer):
    rule = {"kind": "rule", "loss": 0.5, "worst": False, "seconds": 1}
    page = visit(f"{LAKE}&tab=rule&overlay=rule&rule.loss=0.5&rule.seconds=1")
    page.wait_for_selector("#downloads")
    page.click("#tab-compare")
    page.click("#pin")
    expect(page.locator("#pinned figcaption")).to_contain_text("rule within 50 %")
    page.click("#tab-rule")
    page.fill("#loss-limit", "0")
    redrawn(page, lambda: page.click("#compress"))
    page.click("#tab-compare")
    expect(page.locator("#current figcaption")).to_contain_text("rule within 0 %")
    strict = {**rule, "loss": 0}
    told = explorer.ask("change", overlay=strict, before={"model": "frozen_lake", "overlay": rule})
    expect(page.locator("#change")).to_contain_text(f"{told['changed']} of 16")
    table = sides(page)
    assert table["policy"] == [told[side]["policy"] for side in ("before", "after")]
    assert figure(table["loses at most"][0]) == pytest.approx(told["before"]["loss"], rel=1e-2)
    page.wait_for_url("**/*tab=compare*")
    again = visit(page.evaluate("location.hash"))
    expect(again.locator(".sides")).to_have_text(str(page.text_content(".sides")))


def test_settings_of_other_states_are_each_told_on_their_own(visit):
    page = visit(f"{OWN}&tab=compare&set.cars=2")
    page.click("#pin")
    expect(page.locator("#change")).to_contain_text("the same in all")
    redrawn(page, lambda: page.click("#reset"))
    expect(page.locator("#change")).to_contain_text("neither policy can replace the other")
    assert sides(page)["stores"] == ["32", "48"]


def test_a_request_that_takes_long_is_dropped_for_a_newer_one(visit, explorer):
    page = visit(refused="no refusal")
    held = []
    page.route("**/api/map", lambda route: held.append(route))
    page.fill("#set-slip", "0.2")
    page.wait_for_timeout(1600)  # the page waits for 1.5 s before it gives a request up
    with page.expect_event("requestfailed"):
        page.fill("#set-slip", "0.1")
    redrawn(page, lambda: held[-1].continue_())
    page.unroute("**/api/map")
    shown = page.evaluate("JSON.parse(document.getElementById('map').dataset.settings)")
    assert shown == {"slip": 0.1}


def test_a_path_is_drawn_and_cleared(visit):
    page = visit(f"{LAKE}&tab=path")
    before = pixels(page)
    page.click("#walk")
    page.wait_for_selector("#path .figures")
    assert pixels(page) != before
    page.click("#unwalk")
    assert pixels(page) == before


def test_what_is_shown_can_be_saved_and_sent(visit):
    page = visit(f"{LAKE}&set.slip=0.5")
    for kind, begins in (("png", b"\x89PNG"), ("svg", b"<svg "), ("toml", b"# ")):
        page.click("#save")
        with page.expect_download() as handed:
            page.click(f"[data-save={kind}]")
        assert handed.value.suggested_filename.endswith(f".{kind}")
        assert handed.value.path().read_bytes().startswith(begins)
    page.click("#save")
    page.click("[data-save=link]")
    page.wait_for_function("navigator.clipboard.readText().then((text) => text === location.href)")
    assert "set.slip=0.5" in page.url


def test_everything_can_be_reached_and_used_by_keyboard(visit):
    page = visit()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "(({id, name, ariaLabel}) => id || name || ariaLabel)(document.activeElement)"
        )
        if here in reached:
            break
        reached.append(here)
    wanted = {"model", "save", "theme", "colour", "map", "reset", "set-slip", "tab-facts"}
    assert wanted <= set(reached)
    page.focus("#set-slip")
    redrawn(page, lambda: page.keyboard.press("ArrowLeft"))
    page.focus("#tab-facts")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#panel-rule")).to_be_visible()
    page.focus("#save")
    page.keyboard.press("Enter")
    expect(page.locator("#saves")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#saves")).to_be_hidden()
    page.focus("#colour input[value=action]")
    redrawn(page, lambda: page.keyboard.press("ArrowRight"))
    expect(page.locator("#colour input[value=value]")).to_be_checked()


def test_on_a_phone_nothing_is_wider_than_the_screen_and_the_map_stays_in_sight(visit):
    page = visit(LAKE, viewport={"width": 420, "height": 860})
    page.click("#jump [data-to=findings]")
    for tab in ("facts", "rule", "level", "learn", "compare", "path"):
        page.click(f"#tab-{tab}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 420, tab
    expect(page.locator("#map")).to_be_in_viewport(ratio=0.9)
    page.click("#jump [data-to=settings]")
    for place in ("#map", "#set-slip"):
        expect(page.locator(place)).to_be_in_viewport(ratio=0.9)
    shown, moved = (page.locator(place).bounding_box() for place in ("#map", "#set-slip"))
    assert shown["width"] > 300
    assert shown["y"] + shown["height"] < moved["y"]
    page.focus("#reset")
    for _ in range(6):  # what the keyboard reaches is not behind the map
        page.keyboard.press("Tab")
        reached = "document.activeElement.getBoundingClientRect().top"
        card = "document.getElementById('stage').getBoundingClientRect().bottom"
        assert page.evaluate(f"{reached} >= {card}")


def contrast(page: Page, selector: str) -> float:
    """Of text with the card behind it, as WCAG reckons it."""
    colours = page.evaluate(
        """(selector) => [getComputedStyle(document.querySelector(selector)).color,
        getComputedStyle(document.querySelector('.card')).backgroundColor]""",
        selector,
    )
    light = []
    for colour in colours:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    low, high = sorted(light)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(visit, scheme):
    page = visit(color_scheme=scheme)
    assert contrast(page, "h2") > 7
    assert contrast(page, ".about") > 4.5
    assert contrast(page, ".quiet") > 4.5
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_a_model_that_would_not_fit_is_refused_with_its_size(visit):
    page = visit(OWN, refused="status of 400")
    before = pixels(page)
    page.click(".sizes summary")
    page.locator(".setting", has_text="cars").locator(".value").fill("90000")
    page.keyboard.press("Enter")
    said = "at most 20,000 states here; this one would have 1,440,000"
    expect(page.locator("#error")).to_contain_text(said)
    expect(page.locator("#maps")).to_have_css("opacity", "0.3")  # it is not of these settings
    redrawn(page, lambda: page.click("#reset"))
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#maps")).to_have_css("opacity", "1")
    assert pixels(page) == before


def test_on_a_phone_an_error_is_in_sight(visit):
    page = visit(OWN, refused="status of 400", viewport={"width": 390, "height": 844})
    page.click(".sizes summary")
    page.locator(".setting", has_text="cars").locator(".value").fill("90000")
    page.keyboard.press("Enter")
    expect(page.locator("#error")).to_be_in_viewport(ratio=1)
    inside = """() => { const [error, card] = ['error', 'stage'].map((id) =>
        document.getElementById(id).getBoundingClientRect());
        return error.top >= card.top && error.bottom <= card.bottom && error.height > 40; }"""
    assert page.evaluate(inside)


@pytest.mark.parametrize(
    ("value", "said"),
    [("abc", "“abc” is no value for slip; its default is used."), ("7", "slip must be a number")],
)
def test_a_bad_value_in_the_address_leaves_the_defaults_and_says_so(visit, explorer, value, said):
    page = visit(f"{LAKE}&set.slip={value}", refused="status of 400")
    expect(page.locator("#unknown")).to_contain_text(said)
    expect(page.locator("#panel-facts dd").first).to_have_text("16")
    expect(page.locator(".setting", has_text="slip").locator(".value")).to_have_value("0.666667")
    assert page.evaluate("JSON.parse(document.getElementById('map').dataset.settings)") == {}


def test_a_rule_that_loses_nothing_has_no_red_dots(visit):
    view = "#model=naor_admission&overlay=rule&rule.loss=0&tab=rule"
    page = visit(view)
    expect(page.locator("#rule")).to_contain_text("Admit while present is at most 3")
    marked = page.locator("#rule .figures div", has_text="states where the rule differs")
    expect(marked.locator("dd")).to_have_text(re.compile(r"^0( \(and [\d,]+ ties\))?$"))
