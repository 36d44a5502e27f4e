"""The explorer's server: what it answers, whom it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files

import httpx
import numpy as np
import pytest
from explore.explorer_process import LIMITS, crossing, fragile, started
from starlette.exceptions import HTTPException

import tessella as ts
from tessella.baselines import BASELINES
from tessella.cli.explore import open_user_model
from tessella.explore.catalogue import ModelCatalogue, describe_slider
from tessella.explore.panels import GridSection, compare_policies, describe_tradeoff
from tessella.explore.request import RequestFields
from tessella.explore.session import Session
from tessella.explore.worker import ExplorerWorker, RequestLimits
from tessella.learn import LEARNERS
from tessella.support.json_values import to_json_value

RULE = {"kind": "rule", "loss": 0.99, "seconds": 5}
MOST_SENT = 64 << 20  # bytes, far above what lies in buffers on the way
LEARNED = {"kind": "learned", "learner": "local", "samples": 20, "noise": 0.0, "seed": 0}


@pytest.fixture(scope="module")
def lake():
    return ts.solve(ts.problem("frozen_lake").build())


def test_every_problem_is_on_offer_with_its_parameters(explorer):
    offers = {one["name"]: one for one in explorer.http.get("/api/problems").json()["problems"]}
    assert list(offers) == ["own", *(known.name for known in ts.all_problems())]
    for known in ts.all_problems():
        told = {one["name"]: one for one in offers[known.name]["parameters"]}
        assert list(told) == [parameter.name for parameter in known.settable]
        assert all(told[p.name]["about"] == p.about for p in known.settable)


@pytest.mark.parametrize("known", ts.all_problems(), ids=lambda known: known.name)
def test_a_slider_lies_in_the_range_of_its_parameter_and_holds_the_default(known):
    for parameter in known.settable:
        told = describe_slider(parameter)
        if "low" in told:
            assert told["low"] <= parameter.default <= told["high"]
            parameter.check(told["low"], known.name)
            parameter.check(told["high"], known.name)
            assert 1 <= (told["high"] - told["low"]) / told["step"] <= 10_001


def test_the_map_is_the_solution(explorer, lake):
    told = explorer.ask("map", fields=["visits"], shown=["row", "column"])
    assert told["model"]["actions"] == ["left", "down", "right", "up"]
    assert told["table"] == lake.policy.table.tolist()
    np.testing.assert_allclose(told["fields"]["value"], lake.value, atol=2 * lake.error_bound)
    visits = ts.occupancy(lake.mdp, lake.policy).share
    np.testing.assert_allclose(told["fields"]["visits"], visits, atol=1e-9)
    assert lake.error_bound / 2 <= float(told["bound"]) <= 1.5 * lake.error_bound
    finite = np.isfinite(lake.margin)
    shown = np.array(told["fields"]["margin"], dtype=float)
    np.testing.assert_allclose(shown[finite], lake.margin[finite], atol=1e-9)


def test_the_runner_up_is_the_best_of_the_other_actions(explorer, lake):
    second = np.array(explorer.ask("map", shown=["row", "column"])["second"])
    behind = np.take_along_axis(lake.q, second[..., None], axis=-1)[..., 0]
    assert (second != lake.policy.table).all()
    np.testing.assert_allclose(lake.q.max(axis=-1) - behind, lake.margin, atol=1e-9)


def test_settings_change_the_map_and_axes_can_be_turned(explorer):
    slippery, safe = (
        explorer.ask("map", settings={"slip": slip}, shown=shown)
        for slip, shown in ((0.9, []), (0.0, ["column", "row"]))
    )
    assert slippery["table"] != np.transpose(safe["table"]).tolist()
    assert safe["shown"] == ["column", "row"]


def test_a_map_of_rows_and_columns_is_drawn_as_it_is_written(explorer, lake):
    told = explorer.ask("map")
    assert (told["shown"], told["down"]) == (["column", "row"], True)
    assert told["table"] == lake.policy.table.T.tolist()
    assert not explorer.ask("map", shown=["row", "column"])["down"]


def test_of_more_than_two_axes_a_slice_is_shown():
    grid = ts.StateGrid(time=range(2), x=range(3), y=range(2), z=["a", "b", "c", "d"])
    values = np.arange(grid.size).reshape(grid.shape)
    asked = RequestFields({"shown": ["z", "x"], "at": {"y": 1}})
    assert GridSection(grid, asked).columns(values).tolist() == values[0, :, 1, :].T.tolist()
    usual = GridSection(grid, RequestFields({"shown": ["none"], "at": {"time": 9}}))
    assert usual.shown == ["x", "z"]  # time and axes of two values stand
    assert usual.at == {"time": 1, "y": 0}
    line = ts.StateGrid(wear=range(3))
    shown = GridSection(line, RequestFields({})).columns(np.array([4.0, np.inf, 6.0]))
    assert to_json_value(shown) == [[4.0], [None], [6.0]]


def test_geometry_and_structure_are_those_of_the_package(explorer, lake):
    told = explorer.ask("structure")
    tessellation = ts.tessellate(lake)
    assert told["geometry"]["corner_index"] == ts.measure(tessellation).corner_index
    holds = {one["name"] for one in told["structures"] if one["holds"]}
    assert holds == set(ts.examine(tessellation).holds)


def test_every_structure_that_the_page_explains_is_one_that_the_server_sends(explorer):
    page = (files("tessella.explore") / "page" / "findings.js").read_text(encoding="utf-8")
    (means,) = re.findall(r"const MEANS = \{\n(.*?)\n\};", page, re.DOTALL)
    explained = re.findall(r'^  "?(.+?)"?: "', means, re.MULTILINE)
    assert len(explained) == len(means.splitlines())
    told = explorer.ask("structure", model="machine_replacement")["structures"]
    assert set(explained) <= {one["name"] for one in told}


def test_a_rule_is_found_drawn_and_taken_away_as_a_program_that_compiles(explorer, tmp_path):
    told = explorer.ask("rule", overlay=RULE)
    assert told["relative_loss"] <= 0.99
    assert told["says"].splitlines()[0]
    drawn = explorer.ask("map", overlay=RULE, fields=["local"])
    differ = np.not_equal(drawn["overlay"], drawn["table"])
    assert differ.sum() == told["errors"] + told["ties"]
    assert np.sum(drawn["worse"]) == told["errors"]
    assert (np.array(drawn["fields"]["local"]) > 0).sum() == told["errors"]
    for name in ("rule.c", "rule.sql", "rule.py", "rule.xlsx", "rule.json", "certificate.json"):
        got = explorer.post("file", overlay=RULE, file=name)
        assert got.status_code == 200, got.text
        assert f'filename="{name}"' in got.headers["content-disposition"]
        (tmp_path / name).write_bytes(got.content)
    built = ["gcc", "-std=c99", "-Wall", "-Werror", "-c", "rule.c", "-o", "rule.o"]
    assert subprocess.run(built, cwd=tmp_path).returncode == 0
    assert ts.Rule.load(tmp_path / "rule.json").size == told["size"]


def test_the_model_file_that_is_taken_away_is_the_model(explorer, tmp_path):
    got = explorer.post("file", settings={"slip": 0.5}, file="model.toml")
    (tmp_path / "model.toml").write_bytes(got.content)
    again, meant = ts.read_model(tmp_path / "model.toml"), ts.problem("frozen_lake")
    assert again.fingerprint == meant.build(slip=0.5).fingerprint


def test_a_learned_policy_comes_with_its_errors_and_loss(explorer, lake):
    told = explorer.ask("learned", overlay=LEARNED)
    sample = ts.draw(lake, 20, noise=0.0, rng=0)
    policy = ts.fit(ts.LocalBoundary(), sample)
    assert told["errors"] == int((~lake.ties(policy.table)).sum())
    exact = ts.certify(lake, policy).mean_loss
    assert exact.lower <= told["mean_loss"] <= exact.upper + 1e-12


@pytest.mark.parametrize(("learner", "baseline"), BASELINES.items())
def test_a_baseline_is_told_transitions(explorer, lake, learner, baseline):
    overlay = {"kind": "learned", "learner": learner, "samples": 60, "seed": 3}
    told = explorer.ask("learned", overlay=overlay)
    policy = ts.train(baseline(), lake.mdp, 60, rng=3)
    assert (told["name"], told["size"]) == (policy.name, policy.size)
    assert told["errors"] == int((~lake.ties(policy.table)).sum())


def test_loss_is_by_evaluation_and_local_loss_by_the_action_here(explorer, lake):
    asked = {"overlay": LEARNED, "fields": ["loss", "local"], "shown": ["row", "column"]}
    fields = explorer.ask("map", **asked)["fields"]
    policy = ts.fit(ts.LocalBoundary(), ts.draw(lake, 20, noise=0.0, rng=0))
    exact = lake.value - ts.evaluate(lake.mdp, policy).value
    np.testing.assert_allclose(fields["loss"], exact, atol=1e-8)
    taken = np.take_along_axis(lake.q, policy.table[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(fields["local"], lake.value - taken, atol=1e-8)
    assert np.sum(fields["loss"]) > np.sum(fields["local"]) > 0


def test_the_methods_are_those_of_the_command_line():
    from tessella.cli.policies import LearnerParam

    assert LearnerParam().choices == tuple(LEARNERS)


def test_a_comparison_says_what_the_package_says(explorer, lake):
    before = {"model": "frozen_lake", "settings": {"discount": 0.5}}
    told = explorer.ask("change", before=before)
    hasty = ts.solve(ts.problem("frozen_lake").build(discount=0.5))
    found = ts.diff(lake.mdp, hasty.policy, lake.policy)
    assert told["changed"] == found.where.sum() > 0
    assert told["gain"] == pytest.approx(found.gain)
    lost = ts.certify(lake, lake.mdp.policy(hasty.policy.table)).mean_loss
    assert told["before"]["loss"] == pytest.approx(lost.upper)
    assert told["after"]["loss"] == 0
    stake = told["after"]["worth"] - told["before"]["worth"]
    assert stake == pytest.approx(told["gain"], abs=lost.upper - lost.lower + 1e-9)
    assert told["before"]["optimum"] < told["after"]["optimum"]


def test_two_rules_are_compared_by_what_each_surely_loses(explorer, lake):
    before = {"model": "frozen_lake", "overlay": RULE}
    told = explorer.ask("change", before=before, overlay=LEARNED)
    rule = explorer.ask("rule", overlay=RULE)
    assert (told["before"]["policy"], told["before"]["size"]) == (rule["class"], rule["size"])
    assert told["before"]["loss"] == pytest.approx(rule["mean_loss"])
    policy = ts.fit(ts.LocalBoundary(), ts.draw(lake, 20, noise=0.0, rng=0))
    after = ts.certify(lake, policy).mean_loss
    assert told["after"]["loss"] == pytest.approx(after.upper)
    gain = rule["mean_loss"] - after.upper
    assert told["gain"] == pytest.approx(gain, abs=1e-6)


def test_of_other_states_each_is_told_under_its_own_settings(explorer):
    before = {"model": "own", "settings": {"cars": 2}}
    told = explorer.ask("change", model="own", before=before)
    assert not told["comparable"]
    assert "gain" not in told
    assert [told[side]["size"] for side in ("before", "after")] == [32, 48]
    best = [ts.solve(crossing({"cars": cars})).value.mean() for cars in (2, 3)]
    assert [told[side]["optimum"] for side in ("before", "after")] == pytest.approx(best)


def ending(settings):
    """One decision, and the end: the second way costs 1, the first as the settings say."""
    ways = np.array([[[0.0, 1.0], [0.0, 1.0]]] * 2)
    reward = np.array([[-settings.get("first", 3.0), -1.0], [0.0, 0.0]])
    return ts.MDP.from_arrays(ways, reward, ts.Total())


def test_of_a_total_two_losses_tell_the_difference():
    session = Session(ModelCatalogue(ending, 10))
    before = {"model": "own", "settings": {"first": 0.5}}
    told = compare_policies(
        session, RequestFields({"model": "own", "settings": {}, "before": before})
    )
    assert told["changed"] == 1
    assert told["gain"] == pytest.approx(1.0)  # 3 - 1, from one of two states


def alike(settings):
    """Four states in which two of three actions are equally good."""
    stay = np.broadcast_to(np.eye(4), (3, 4, 4))
    return ts.MDP.from_arrays(stay, np.array([[1.0, 1.0, 0.0]] * 4), 0.9)


def test_an_action_that_ties_with_the_best_is_no_error():
    session = Session(ModelCatalogue(alike, 10))
    known = session.get_model(RequestFields({"model": "own"}))
    taken = known.solution.mdp.policy(np.array([0, 1, 1, 2]))
    assert known.solution.policy.table.tolist() == [0, 0, 0, 0]
    assert known.solution.ties(taken.table).tolist() == [True, True, True, False]
    assert known.compute_local_loss(taken).tolist() == pytest.approx([0.0, 0.0, 0.0, 1.0])


def test_a_model_of_rates_is_shown_per_unit_of_time(explorer):
    solution = ts.solve(ts.problem("naor_admission").build())
    times = solution.mdp.clock.per_time(1.0)
    drawn = explorer.ask("map", model="naor_admission")
    assert drawn["gain"] == pytest.approx(times * solution.gain)
    assert drawn["unit"] == "per unit of time"
    assert float(drawn["bound"]) >= times * solution.error_bound
    before = {"model": "naor_admission", "settings": {"waiting_cost": 0.1}}
    told = explorer.ask("change", model="naor_admission", before=before)
    assert told["unit"] == "per unit of time"
    assert told["after"]["optimum"] == pytest.approx(times * solution.gain)
    old = ts.solve(ts.problem("naor_admission").build(waiting_cost=0.1)).policy
    lost = solution.gain - ts.evaluate(solution.mdp, old.table).gain
    assert told["gain"] == pytest.approx(times * lost)
    assert lost > 0.01
    path = explorer.ask("path", model="naor_admission", periods=9)
    assert path["mean"] == pytest.approx(times * np.mean(path["earned"]))


def test_a_comparison_prints_no_more_than_is_proven(explorer):
    before = {"model": "frozen_lake", "overlay": LEARNED}
    told = explorer.ask("change", before=before, overlay=RULE)
    for side in ("before", "after"):
        loss, share = (told[side][key] for key in ("loss", "relative_loss"))
        assert float(told[side]["surely"]) <= told[side]["worth"]
        assert float(told[side]["worth"]) <= told[side]["optimum"] - loss
        assert loss <= float(told[side]["loses"]) <= 1.01 * loss
        percent = told[side]["loses_share"].removeprefix("at most ").removesuffix("%")
        assert 100 * share <= float(percent)


def test_a_path_is_that_of_its_seed(explorer, lake):
    told = explorer.ask("path", seed=5, periods=12)
    walked = ts.simulate(lake.mdp, lake, 12, 5)
    live = len(told["actions"])
    assert told["actions"] == walked.actions[0, :live].tolist()
    rows, columns = np.unravel_index(walked.states[0, : live + 1], (4, 4))
    assert told["places"] == {"row": rows.tolist(), "column": columns.tolist()}


def test_a_model_that_would_not_fit_is_refused_with_its_size(explorer):
    huge = {"max_stock": 1_000_000, "max_regime": 1_000_000}
    refused = explorer.post("map", model="inventory", settings=huge)
    assert refused.status_code == 400
    assert "at most 20,000 states here; this one would have 1,000,002,000,001" in refused.text


@pytest.mark.parametrize("name", ["os:system", "tessella.problems.inventory:inventory", "own", ""])
def test_a_name_from_the_page_imports_nothing(name):
    with pytest.raises(ts.ArgumentError, match="no problem on offer has this name"):
        ModelCatalogue(None, 100).open(name, {})


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "localhost:1", "evil.org:{port}", ""])
def test_another_host_is_refused(explorer, host):
    port = explorer.address.rpartition(":")[2]
    headers = {"host": host.format(port=port)}
    for found in (
        explorer.http.get("/", headers=headers),
        explorer.http.post("/api/map", json={"model": "frozen_lake"}, headers=headers),
    ):
        assert found.status_code in (400, 403)
        assert "frozen_lake" not in found.text


def test_another_origin_is_refused_and_our_own_is_not(explorer):
    def status(**headers):
        return explorer.http.post(
            "/api/map", json={"model": "frozen_lake"}, headers=headers
        ).status_code

    port = explorer.address.rpartition(":")[2]
    assert status(origin="https://example.org") == status(origin="null") == 403
    assert status(origin=f"http://127.0.0.1:{int(port) - 1}") == 403
    assert status(**{"sec-fetch-site": "same-site"}) == 403
    assert status(origin=explorer.address) == status(origin=f"http://localhost:{port}") == 200


def test_a_form_of_another_site_is_no_request(explorer):
    told = '{"model": "frozen_lake"}'
    found = explorer.http.post("/api/map", content=told, headers={"content-type": "text/plain"})
    assert found.status_code == 415


def test_the_server_listens_on_this_machine_alone(explorer):
    port = int(explorer.address.rpartition(":")[2])
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)}
    for address in others - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with socket.socket() as knocking:
            knocking.settimeout(1)
            assert knocking.connect_ex((address, port)) != 0


def test_nothing_may_be_loaded_from_outside(explorer):
    page = explorer.http.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    names = ["page.css", "main.js", "scene.js", "icon.svg"]
    texts = [page.text, *(explorer.http.get(f"/page/{name}").text for name in names)]
    assert all("http" not in text.replace("http://www.w3.org/", "") for text in texts)


@pytest.mark.parametrize("path", ["/page/../server.py", "/page/%2e%2e/server.py", "/etc/passwd"])
def test_only_files_of_the_page_are_served(explorer, path):
    with socket.create_connection(("127.0.0.1", int(explorer.address.rpartition(":")[2]))) as bare:
        host = explorer.address.removeprefix("http://")
        bare.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        answer = b""
        while part := bare.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 404")


def connect(explorer) -> tuple[socket.socket, str]:
    """A bare connection, and the Host that it names."""
    host = explorer.address.removeprefix("http://")
    return socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2])), timeout=60), host


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/map"), ("POST", "/api/none"), ("GET", "/")]
)
def test_a_body_without_end_is_cut_off(explorer, method, path):
    bare, host = connect(explorer)
    kind = "content-type: application/json\r\ntransfer-encoding: chunked"
    head = f"{method} {path} HTTP/1.1\r\nhost: {host}\r\n{kind}\r\n\r\n"
    chunks = (b"10000\r\n" + b"x" * 65536 + b"\r\n") * (MOST_SENT // 65536)
    with bare, pytest.raises(ConnectionError):
        bare.sendall(head.encode() + chunks)
    assert explorer.ask("map")["model"]["states"] == 16


@pytest.fixture
def logged():
    """What the server writes to the terminal."""
    records: list[logging.LogRecord] = []
    handler, logger = logging.Handler(), logging.getLogger("uvicorn.error")
    handler.emit = records.append
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


@pytest.mark.parametrize(
    "text",
    [
        "\0\xff\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: {host}\r\ncontent-length: abc\r\n\r\n",
        "POST /api/map HTTP/1.1\r\nhost: {host}\r\n{kind}chunked\r\n\r\n5\r\nabcdefgh\r\n",
        "POST /api/map HTTP/1.1\r\nhost: {host}\r\n{kind}chunked\r\n\r\nZZ\r\n",
        "POST /api/map HTTP/1.1\r\nhost: {host}\r\n{kind}chunked\r\n\r\n50\r\ncut short",
    ],
)
def test_invalid_http_leaves_no_traceback(explorer, logged, text):
    kind = "content-type: application/json\r\ntransfer-encoding: "
    bare, host = connect(explorer)
    with bare:
        bare.sendall(text.format(host=host, kind=kind).encode("latin-1"))
        bare.shutdown(socket.SHUT_WR)
        assert bare.recv(65536)[:12] in (b"HTTP/1.1 400", b"")
    assert explorer.ask("map")["model"]["states"] == 16
    assert [one.getMessage() for one in logged if one.exc_info] == []


def test_two_hundred_requests_at_once_are_served_or_refused(explorer):
    explorer.ask("map")

    def ask_alone(_: int) -> httpx.Response:
        """One request on a connection of its own: threads must not share a client's pool."""
        with httpx.Client(
            base_url=explorer.address, timeout=300, trust_env=False, verify=False
        ) as client:
            return client.post("/api/map", json={"model": "frozen_lake"})

    with ThreadPoolExecutor(200) as crowd:
        answers = list(crowd.map(ask_alone, range(200)))
    statuses = [one.status_code for one in answers]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= LIMITS.waiting
    assert all("error" in one.json() for one in answers if one.status_code == 503)
    assert explorer.worker.waiting == 0
    assert explorer.ask("map")["model"]["states"] == 16


def test_no_more_than_so_many_wait():
    worker = ExplorerWorker(None, RequestLimits(waiting=0))

    async def wanted() -> bool:
        return False

    with pytest.raises(HTTPException, match="others are waiting") as refused:
        asyncio.run(worker.ask("map", {}, wanted))
    assert refused.value.status_code == 503


@pytest.fixture(scope="module")
def delicate(tmp_path_factory):
    order = tmp_path_factory.mktemp("order") / "what.txt"
    with started(partial(fragile, order), RequestLimits(seconds=300.0, patience=0.2)) as made:
        yield made, order


@pytest.fixture
def ordered(delicate):
    """Says what the model of a new worker does; the list of problems begins by building it."""
    explorer, order = delicate
    explorer.worker.end()

    def orders(what: str):
        order.write_text(what)
        return explorer

    return orders


def test_what_fails_inside_is_told_without_a_trace(ordered):
    assert ordered("").ask("map", model="own")["model"]["states"] == 16
    failed = ordered("fail").post("map", model="own", settings={"again": 1})
    assert failed.status_code == 500
    assert failed.json() == {"error": "this is a fault of the program; the terminal shows where"}
    filled = ordered("fill").post("map", model="own", settings={"again": 2})
    assert filled.status_code == 413
    assert "memory" in filled.json()["error"]


def test_a_worker_that_dies_is_told_and_replaced(ordered):
    assert ordered("die").http.get("/api/problems").status_code == 507
    assert ordered("").http.get("/api/problems").status_code == 200


def test_work_that_nobody_waits_for_makes_room_for_others(ordered):
    explorer = ordered("sleep")
    before = explorer.worker.n_stopped
    with pytest.raises(httpx.ReadTimeout):  # by then a new process has started, and sleeps
        explorer.http.get("/api/problems", timeout=8.0)
    assert ordered("").http.get("/api/problems").status_code == 200
    assert explorer.worker.n_stopped == before + 1


def test_work_that_takes_too_long_is_stopped(ordered, monkeypatch):
    explorer = ordered("sleep")
    monkeypatch.setattr(explorer.worker, "limits", RequestLimits(seconds=1.0))
    late = explorer.http.get("/api/problems")
    assert late.status_code == 504
    assert "longer than 1 seconds" in late.json()["error"]


SHOP = """
name = "shop"
[parameters]
price = 4.0
lots = [0, 5]
[axes]
stock = { from = 0, to = 5 }
[actions]
name = "order"
values = [0, 5]
[criterion]
kind = "discounted"
discount = 0.9
[distributions.demand]
kind = "poisson"
mean = 2.0
largest = 5
[[stages]]
kind = "decide"
axis = "stock"
to = "min(stock + order, 5)"
pays = "-2 * order"
[[stages]]
kind = "shift"
axis = "stock"
noise = "demand"
by = "-demand"
pays = "price * min(stock, demand)"
"""


def test_the_slider_of_a_discount_ends_below_1_and_that_of_a_share_at_1(tmp_path):
    path = tmp_path / "shop.toml"
    more = "[parameters]\npatience = 0.98\nspoiled = 0.4\n"
    path.write_text(
        SHOP.replace("[parameters]\n", more)
        .replace("discount = 0.9", 'discount = "patience"')
        .replace("price * min", "(1 - spoiled) * price * min")
    )
    offer = ModelCatalogue(partial(open_user_model, str(path), ()), 1000).offers[0]
    ends = {one["name"]: (one["low"], one["high"]) for one in offer["parameters"] if "low" in one}
    assert ends == {"patience": (0.0, 0.999), "spoiled": (0.0, 1.0), "price": (0.0, 16.0)}


def test_a_model_file_of_ones_own_has_sliders_of_its_parameters(tmp_path):
    path = tmp_path / "shop.toml"
    path.write_text(SHOP)
    catalogue = ModelCatalogue(partial(open_user_model, str(path), ()), 1000)
    offer = catalogue.offers[0]
    assert (offer["name"], offer["label"]) == ("own", "shop")
    price, lots = offer["parameters"]
    assert (price["name"], price["default"], price["high"]) == ("price", 4.0, 16.0)
    assert lots["default"] == [0, 5]
    opened = catalogue.open("own", {"price": 9.5, "lots": [1, 2]})
    assert dict(opened.parameters) == {"price": 9.5, "lots": [1, 2]}
    path.write_text(SHOP.replace("to = 5 }", "to = 5000 }"))
    with pytest.raises(
        ts.TessellaError, match="at most 1,000 states here; this one would have 5,001"
    ):
        catalogue.open("own", {})


JAMS = {"measure": "jam_share", "better": "less"}


def test_a_trade_off_and_its_policies_are_those_of_the_package(explorer):
    mdp = crossing({})
    told = explorer.ask("tradeoff", model="own", **JAMS)
    levels = [point["level"] for point in told["points"]]
    assert levels == sorted(levels, reverse=True)
    assert all(abs(100 * level - round(100 * level)) < 1e-9 for level in levels[1:-1])
    assert told["is_share"]
    for at in (0, len(levels) // 2, len(levels) - 1):
        point = told["points"][at]
        best = ts.solve(mdp, subject_to={"jam_share": ts.AtMost(levels[at])})
        assert point["bound"] == pytest.approx(best.high, abs=1e-7)
        shown = explorer.ask("map", model="own", overlay={"kind": "level", "at": at, **JAMS})
        section = GridSection(mdp.grid, RequestFields({}))
        session = Session(ModelCatalogue(crossing, LIMITS.states))
        request = RequestFields({"model": "own", "overlay": {"kind": "level", "at": at, **JAMS}})
        policy = session.get_policy(session.get_model(request), request.part("overlay"))
        np.testing.assert_array_equal(shown["overlay"], section.columns(policy.table))
        exact = ts.evaluate(mdp, policy)
        assert exact.measures["jam_share"].high <= levels[at]
        assert point["value"] == pytest.approx(exact.measures["jam_share"].value, abs=1e-12)
        assert point["objective"] == pytest.approx(exact.mean, abs=1e-9)
        assert point["objective"] <= point["bound"]


def test_a_rule_for_a_level_satisfies_it_and_is_taken_away(explorer, tmp_path):
    overlay = {"kind": "level", "at": 4, "rule": True, "loss": 0.1, "seconds": 5, **JAMS}
    told = explorer.ask("rule", model="own", overlay=overlay)
    level = explorer.ask("tradeoff", model="own", **JAMS)["points"][4]["level"]
    path = tmp_path / "rule.json"
    path.write_bytes(explorer.post("file", model="own", overlay=overlay, file="rule.json").content)
    rule = ts.Rule.load(path)
    assert ts.evaluate(crossing({}), rule).measures["jam_share"].high <= level
    assert f"at most {level:g}" in told["says"]
    assert told["worst_loss"] is None


def test_measures_of_policies_are_those_of_an_evaluation(explorer):
    mdp = crossing({})
    exact = ts.evaluate(mdp, ts.solve(mdp)).measures
    told = explorer.ask("structure", model="own")["measures"]
    assert [one["name"] for one in told] == ["jam_share", "jams", "passing"]
    for one in told:
        assert one["values"] == [pytest.approx(exact[one["name"]].value, abs=1e-12)]
        assert one["is_share"] == (one["name"] == "jam_share")
    overlay = {"kind": "level", "at": 5, **JAMS}
    changed = explorer.ask("change", model="own", before={"model": "own"}, overlay=overlay)
    point = explorer.ask("tradeoff", model="own", **JAMS)["points"][5]
    before, after = changed["measures"][0]["values"]
    assert before == pytest.approx(exact["jam_share"].value, abs=1e-12)
    assert after == pytest.approx(point["value"], abs=1e-12)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "frozen_lake", **JAMS}, "this model counts nothing"),
        ({"measure": "jam", "better": "less"}, "measure must be one of jams, passing"),
        (
            {"measure": "jams", "better": "worse"},
            "better must be one of more, less; a request got 'worse'",
        ),
        ({"measure": "passing", "better": "more"}, "passing must be able to rise"),
    ],
)
def test_a_trade_off_that_cannot_be_drawn_is_said_to_be_none(explorer, fields, said):
    answer = explorer.post("tradeoff", **{"model": "own", **fields})
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def free_stock(settings) -> ts.MDP:
    """Without sales nothing is best: the first level of a fill rate is 0, as is its cost."""
    stages = [
        ts.Decide("stock", to=lambda order: order, costs=lambda order: 1.0 * order),
        ts.Shift(
            "stock",
            ts.Noise("demand", [0, 1, 2], [0.3, 0.4, 0.3]),
            by=lambda demand: -demand,
            counts={
                "lost": lambda stock, demand: np.maximum(demand - stock, 0),
                "demand": lambda demand: demand,
            },
        ),
    ]
    mdp = ts.MDP.staged(
        {"stock": range(3)}, (0, 1, 2), criterion=ts.Average(), stages=stages, action_name="order"
    )
    return mdp.with_measures(fill_rate="1 - lost / demand")


def test_what_is_zero_up_to_rounding_is_shown_as_zero():
    session = Session(ModelCatalogue(free_stock, LIMITS.states))
    request = RequestFields({"model": "own", "measure": "fill_rate", "better": "more"})
    shown = describe_tradeoff(session, request)
    first, last = shown["points"][0], shown["points"][-1]
    assert [first[name] for name in ("level", "bound", "objective", "value")] == [0, 0, 0, 0]
    values = {one["name"]: one["values"][0] for one in first["measures"]}
    assert values["fill_rate"] == 0
    assert values["lost"] == pytest.approx(1.0)
    assert last["level"] == pytest.approx(1.0, abs=1e-6)
    assert last["bound"] > 1
