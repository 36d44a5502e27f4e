"""Compilation among other processes: a forked child gets an error, the others work."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Starts children in each way, before and after the engine was used, and prints what became of them.
PROGRAM = """
import json, multiprocessing, warnings
import numpy as np
import tessella as ts
from tessella.mdp.compilation import to_device

def model():
    return ts.MDP.from_arrays(np.ones((1, 2, 2)) / 2, np.arange(2.0), 0.5)

def solving(pipe):
    try:
        pipe.send(ts.solve(model()).value.tolist())
    except RuntimeError as error:
        pipe.send(str(error))

def touching(pipe):
    try:
        pipe.send(np.asarray(to_device(np.arange(2.0))).tolist())
    except RuntimeError as error:
        pipe.send(str(error))

def playing(pipe):
    pipe.send(ts.simulate(model(), [0, 0], 1, 0, start=1).rewards.tolist())

def begin(method, work):
    context = multiprocessing.get_context(method)
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(there,))
    child.start()
    return child, here

def end(child, here):
    found = here.recv() if here.poll(120) else "hangs"
    child.kill() if found == "hangs" else child.join(120)
    return found

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # JAX and Python warn of forks by themselves
    found = {"before": end(*begin("fork", solving))}
    found["parent"] = ts.solve(model()).value.tolist()
    found["fork"] = end(*begin("fork", solving))
    found["playing"] = end(*begin("fork", playing))
    fresh = {method: begin(method, touching) for method in ("spawn", "forkserver")}
    found |= {method: end(*started) for method, started in fresh.items()}
    print(json.dumps(found))
"""

REFUSAL = (
    "this process was forked from one that had used JAX, whose threads a fork does not copy, "
    "and would wait for them forever; start processes with spawn or forkserver: "
    "multiprocessing.get_context('spawn')"
)


def test_a_child_forked_after_a_solve_is_told_and_every_other_child_works(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True, timeout=500
    )
    found = json.loads(done.stdout)
    assert found.pop("before") == found.pop("parent") == pytest.approx([0.5, 1.5])
    assert found == {
        "fork": REFUSAL,
        "playing": [[1.0]],
        "spawn": [0.0, 1.0],
        "forkserver": [0.0, 1.0],
    }
