"""Models are the same on every processor, so that rules and certificates can be shared."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRINT_FINGERPRINTS = """
import tessella as ts
for problem in ts.all_problems():
    if problem.name != "vertical_cas":  # 398,034 states
        print(problem.name, problem.build().fingerprint)
"""


@pytest.fixture(scope="module")
def fingerprints() -> str:
    return print_fingerprints({})


def print_fingerprints(settings: dict[str, str]) -> str:
    command = [sys.executable, "-c", PRINT_FINGERPRINTS]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"} | settings
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    "settings",
    [
        {"OPENBLAS_CORETYPE": "Nehalem"},
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
    ],
    ids=["old matrix products", "newer matrix products", "narrow vectors"],
)
def test_fingerprints_do_not_depend_on_the_processor(fingerprints, settings):
    assert fingerprints.count("\n") >= 20
    assert print_fingerprints(settings) == fingerprints
