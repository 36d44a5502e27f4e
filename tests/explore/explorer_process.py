"""An explorer on a port of its own, as the command starts it; and a model that fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import uvicorn
from starlette.applications import Starlette

import tessella as ts
from tessella.explore.server import make_application, open_socket
from tessella.explore.worker import ExplorerWorker, RequestLimits

LIMITS = RequestLimits(states=20_000, waiting=24)


@dataclass
class Explorer:
    """A server that listens, as the command starts it."""

    address: str
    app: Starlette
    http: httpx.Client

    @property
    def worker(self) -> ExplorerWorker:
        return self.app.state.worker

    def post(self, job: str, **fields) -> httpx.Response:
        """A job about the lake of 16 states, unless it is told otherwise."""
        return self.http.post(f"/api/{job}", json={"model": "frozen_lake", **fields})

    def ask(self, job: str, **fields):
        found = self.post(job, **fields)
        assert found.status_code == 200, found.text
        return found.json()


@contextmanager
def started(own=None, limits: RequestLimits = LIMITS) -> Iterator[Explorer]:
    """An explorer, ended with the block."""
    listening = open_socket(0)
    port = listening.getsockname()[1]
    app = make_application(own, limits, port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    running = threading.Thread(target=server.run, args=([listening],), daemon=True)
    running.start()
    while not server.started:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=address, timeout=300, trust_env=False) as client:
            yield Explorer(address, app, client)
    finally:
        server.should_exit = True
        running.join(timeout=60)
        listening.close()


def crossing(settings):
    """A table of four axes, which is solved without compiling anything; its size can be set.

    It counts cars and jams, so that there is a share of cars in a jam to trade for reward.
    """
    cars, price = settings.get("cars", 3), settings.get("price", 2.0)
    grid = ts.StateGrid(left=range(cars), right=range(4), green=["left", "right"], wait=range(2))
    chance = np.random.default_rng(1)
    transition = chance.dirichlet(np.ones(grid.size), size=(2, grid.size))
    reward = 5 + chance.normal(size=(grid.size, 2)) - [0.0, price / 4]
    about = {"name": "crossing", "parameters": {"cars": cars, "price": price}}
    made = ts.MDP.from_arrays(transition, reward, 0.9, grid=grid, actions=["keep", "go"], **about)
    jams = chance.uniform(size=(grid.size, 2))
    passing = np.ones((grid.size, 2))
    return made.with_measures(jams=jams, passing=passing).with_measures(jam_share="jams / passing")


def fragile(order: Path, settings):
    """A model whose building takes long, fails, or ends its process, as a file orders it."""
    what = order.read_text()
    if what == "die":
        os._exit(3)
    if what == "sleep":
        time.sleep(30)
    if what == "fail":
        raise RuntimeError("a secret of the machine")
    if what == "fill":
        bytearray(1 << 40)
    return ts.problem("frozen_lake").build()
