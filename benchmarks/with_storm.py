"""Solve models in UMB files with Storm, or write Storm's examples as such files.

    python benchmarks/with_storm.py solve FOLDER
    python benchmarks/with_storm.py examples FOLDER

``solve`` reads FOLDER/queries.json, a property for each file, and writes FOLDER/values.json with
the values of all states. ``examples`` builds the MDPs that come with stormpy from their PRISM
programs and writes them as UMB and as DRN. It is run by a Python that has stormpy 2 and without
tessella.
"""

import json
import sys
import time
from pathlib import Path

import stormpy
import stormpy.examples
import stormpy.io

PRECISION = 1e-10  # relative
CONSTANTS = {"coin2": "K=2", "firewire": "delay=3,fast=0.5", "wlan0_collide": "COL=2"}


def solve(folder: Path) -> None:
    answers = {}
    for name, query in json.loads((folder / "queries.json").read_text()).items():
        environment = stormpy.environments.sound()
        solver = environment.solver().min_max()
        solver.precision = stormpy.environments.Rational(PRECISION)
        start = time.process_time()
        try:
            model = stormpy.build_model_from_umb(str(folder / f"{name}.umb"))
            (formula,) = stormpy.parse_properties(query)
            result = stormpy.model_checking(model, formula, environment=environment)
            values = [float(value) for value in result.get_value_vector()]
            answers[name] = {"values": values, "seconds": time.process_time() - start}
        except Exception as error:
            answers[name] = {"error": str(error).splitlines()[0]}
    (folder / "values.json").write_text(json.dumps(answers))


def write_examples(folder: Path) -> None:
    options = stormpy.BuilderOptions(build_full=True)
    options.set_build_state_valuations()
    options.set_build_choice_labels()
    for path in sorted((Path(stormpy.examples.__file__).parent / "files" / "mdp").glob("*.nm")):
        try:
            program = stormpy.parse_prism_program(str(path))
            if path.stem in CONSTANTS:
                program = program.define_constants(
                    stormpy.parse_constants_string(program.expression_manager, CONSTANTS[path.stem])
                )
            model = stormpy.build_model(program, options=options)
            stormpy.io.export_to_umb(model, str(folder / f"{path.stem}.umb"))
            stormpy.io.export_to_drn(model, str(folder / f"{path.stem}.drn"))
        except Exception as error:
            print(f"{path.stem}: {str(error).splitlines()[0]}", file=sys.stderr)


if __name__ == "__main__":
    {"solve": solve, "examples": write_examples}[sys.argv[1]](Path(sys.argv[2]))
