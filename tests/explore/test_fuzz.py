"""Requests of any kind get an answer or a clear error, and the server still answers afterwards."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella.explore.server import JOB_NAMES

CLEAR = (200, 400, 404, 405, 413, 415)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
# No request of these may ask for a rule or a network: what they cost is bounded, and not small.
OVERLAY = ODD | st.fixed_dictionaries(
    {"kind": st.sampled_from(["optimal", "learned", "none"]), "learner": ODD, "samples": ODD}
)
SETTINGS = ODD | st.dictionaries(
    st.sampled_from(["slip", "discount", "observation_noise", "self", "name"]), ODD, max_size=2
)
FIELDS = {
    "settings": SETTINGS,
    "shown": ODD | st.lists(st.sampled_from(["row", "column", "x"]), max_size=3),
    "at": ODD | st.dictionaries(st.sampled_from(["row", "column"]), ODD, max_size=2),
    "fields": ODD | st.lists(st.sampled_from(["visits", "loss", "x"]), max_size=2),
    "overlay": OVERLAY,
    "before": ODD,
    "periods": ODD,
    "seed": ODD,
    "start": ODD,
    "file": ODD | st.sampled_from(["model.toml", "../model.toml", "/etc/passwd", "rule.c"]),
}
MODELS = st.just("frozen_lake") | st.text(max_size=8) | ODD
BODIES = st.fixed_dictionaries({"model": MODELS}, optional=FIELDS)
LEAN = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def clear(answer) -> None:
    """An answer, or a sentence about what was wrong and no trace of a program."""
    assert answer.status_code in CLEAR, answer.text
    if answer.status_code != 200:
        assert list(answer.json()) == ["error"]
        assert "Traceback" not in answer.text
        assert 'File "' not in answer.json()["error"]


@LEAN
@given(st.sampled_from(JOB_NAMES), BODIES | ODD)
def test_whatever_a_job_is_told_the_answer_is_clear(explorer, job, body):
    text = json.dumps(body)
    headers = {"content-type": "application/json"}
    clear(explorer.http.post(f"/api/{job}", content=text, headers=headers))


@LEAN
@given(st.binary(max_size=60))
def test_what_is_no_json_is_refused(explorer, content):
    headers = {"content-type": "application/json"}
    answer = explorer.http.post("/api/map", content=content, headers=headers)
    assert answer.status_code == 400
    clear(answer)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("[" * 30_000, 400),
        ("[" * 900 + "]" * 900, 400),
        ('{"model": "frozen_lake", "other": ' + "[" * 15 + "1" + "]" * 15 + "}", 200),
        ('{"model": "frozen_lake", "other": ' + "[" * 16 + "1" + "]" * 16 + "}", 400),
        ("9" * 20_000, 400),
        ('{"model": "' + "x" * 70_000 + '"}', 413),
        ('{"model": "' + "x" * 900_000 + '"}', 413),
        ('{"model": "frozen_lake", "settings": {"self": 1}}', 400),
        ('{"model": "frozen_lake", "settings": {"name": 1}}', 400),
        ('{"model": "frozen_lake", "settings": {"slip": 1e999}}', 400),
        ('{"model": "frozen_lake", "settings": {"slip": NaN}}', 400),
        ('{"model": "frozen_lake", "settings": {"slip": -0.5}}', 400),
    ],
)
def test_a_request_is_rejected_where_it_is_deep_long_or_not_finite(explorer, content, status):
    headers = {"content-type": "application/json"}
    answer = explorer.http.post("/api/map", content=content, headers=headers)
    assert answer.status_code == status
    clear(answer)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/map"), ("POST", "/api/none"), ("PUT", "/"), ("GET", "/page/none.js")],
)
def test_other_ways_are_refused_in_a_sentence(explorer, method, path):
    headers = {"content-type": "application/json"}
    answer = explorer.http.request(method, path, content="{}", headers=headers)
    assert answer.status_code in (404, 405)
    clear(answer)


def test_it_still_answers_afterwards(explorer):
    assert explorer.worker.n_stopped == 0
    assert explorer.ask("map")["model"]["states"] == 16
