"""ONNX: the rule as a graph of comparisons in double precision.

    inputs      one for each axis, (n,): double, or string for a text axis
    outputs     action_index (n,) int64, -1 for what is refused; and what to do: one for each
                component of the action, NaN or "" for what is refused

Needs the extra ``onnx``.
"""

from __future__ import annotations

import json
import math
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import needs
from tessella.mdp.program import Among, Choose, Except, Node, Split
from tessella.rules.export.draft import OTHER, Draft, Rows
from tessella.rules.export.lowered import Condition, Labels, Range, cell, is_text, span, steps
from tessella.rules.export.names import identifiers, plain
from tessella.rules.export.target import Absent, Target

OPSET, LABELS_OPSET, IR = 17, 2, 8
INDEX = "action_index"
PORTION = 1 << 14  # rows that a graph is run on at once: it keeps one array for each comparison


class OnnxGraph(Target):
    """A graph for any ONNX runtime."""

    name: ClassVar[str] = "ONNX"
    suffix: ClassVar[str] = ".onnx"

    def require(self) -> None:
        with needs("exporting to ONNX", "onnx"):
            import onnx  # noqa: F401

    def write(self, draft: Draft) -> bytes:
        self.require()
        import onnx

        model = Graph(draft, onnx).model()
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        try:
            import onnxruntime
        except ImportError as error:
            raise Absent("onnxruntime is missing, which comes with the extra 'onnx'") from error
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            content, settings, providers=["CPUExecutionProvider"]
        )
        names = input_names(draft)
        given = {
            names[axis]: np.array(rows[axis], dtype=object if is_text(draft.grid, axis) else float)
            for axis in draft.grid.axes
        }
        count = len(rows[draft.grid.axes[0]])
        said = []
        for first in range(0, count, PORTION):
            portion = {name: values[first : first + PORTION] for name, values in given.items()}
            said.append([np.asarray(part) for part in session.run(None, portion)])
        index, *parts = map(np.concatenate, zip(*said, strict=True))
        taken = index >= 0
        for values, part in zip(draft.columns.values(), parts, strict=True):
            meant = np.asarray(values)[index[taken]]
            index[taken] = np.where(part[taken] == meant, index[taken], OTHER)
        return index


def input_names(draft: Draft) -> dict[str, str]:
    """Axis to the name of its input."""
    return identifiers(draft.grid.axes, (INDEX,))


class Graph:
    """The graph of one rule, node by node."""

    def __init__(self, draft: Draft, onnx: Any) -> None:
        self.draft, self.grid, self.onnx = draft, draft.grid, onnx
        self.nodes: list = []
        self.constants: dict[str, Any] = {}
        self.inputs = input_names(draft)
        self.outputs = identifiers([*draft.columns], (INDEX, *self.inputs.values()), "part")
        self.codes: dict[str, str] = {}  # text axis -> the places of its labels
        self.clamped: dict[str, str] = {}  # axis -> its coordinate, moved to the ends
        self.sums: dict[tuple, str] = {}

    def model(self) -> Any:
        helper, tensor = self.onnx.helper, self.onnx.TensorProto
        known = reduce(lambda a, b: self.add("And", a, b), map(self._known, self.grid.axes))
        said = self._said(self.draft.root)
        self.add("Where", known, said, self._whole(-1), to=INDEX)
        outputs = [helper.make_tensor_value_info(INDEX, tensor.INT64, ["n"])]
        for name, values in self.draft.columns.items():
            text = isinstance(values[0], str)
            table = np.array([*values, ""], object) if text else np.array([*values, math.nan])
            self.add("Gather", self._constant(table), INDEX, to=self.outputs[name])
            kind = tensor.STRING if text else tensor.DOUBLE
            outputs.append(helper.make_tensor_value_info(self.outputs[name], kind, ["n"]))
        inputs = [
            helper.make_tensor_value_info(
                self.inputs[axis],
                tensor.STRING if is_text(self.grid, axis) else tensor.DOUBLE,
                ["n"],
            )
            for axis in self.grid.axes
        ]
        about = "\n".join(map(plain, self.draft.about))
        graph = helper.make_graph(
            self.nodes, "rule", inputs, outputs, [*self.constants.values()], doc_string=about
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", LABELS_OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR, producer_name="tessella", doc_string=about
        )
        facts = {"facts": self.draft.facts, "inputs": self.inputs, "outputs": self.outputs}
        facts |= {
            "actions": [self.draft.described(i) for i in range(len(self.draft.policy.actions))]
        }
        helper.set_model_props(model, {key: json.dumps(value) for key, value in facts.items()})
        return model

    def add(self, kind: str, *given: str, to: str = "", **settings: Any) -> str:
        """One more node; the name of what it gives."""
        name = to or f":{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, [*given], [name], **settings))
        return name

    def _constant(self, values: Any) -> str:
        """A constant, stored once; the name of it."""
        array = np.asarray(values)
        key = f"={array.dtype.str}{array.shape}{array.tolist()!r}"
        if key not in self.constants:
            name = f"={len(self.constants)}"
            self.constants[key] = self.onnx.numpy_helper.from_array(array, name)
        return self.constants[key].name

    def _whole(self, value: int) -> str:
        return self._constant(np.int64(value))

    def _number(self, value: float) -> str:
        return self._constant(np.float64(value))

    def _known(self, axis: str) -> str:
        """Whether the coordinate is not refused: (n,) bool."""
        given = self.inputs[axis]
        if is_text(self.grid, axis):
            labels = self.draft.labels(axis)
            places = [*range(len(labels))]
            self.codes[axis] = self.add(
                "LabelEncoder",
                given,
                domain="ai.onnx.ml",
                keys_strings=[*labels],
                values_int64s=places,
                default_int64=-1,
            )
            return self.add("Greater", self.codes[axis], self._whole(-1))
        if self.draft.off_grid == "refuse":
            column = self.add("Unsqueeze", given, self._constant(np.array([1])))
            same = self.add("Equal", column, self._constant(np.array(self.draft.values(axis))))
            return self.add("Greater", self._counted(same), self._whole(0))
        return self.add("Equal", given, given)

    def _counted(self, same: str) -> str:
        """(n, k) bool to the (n,) number of those that are true."""
        whole = f":{len(self.nodes)}"
        kind = self.onnx.TensorProto.INT64
        self.nodes.append(self.onnx.helper.make_node("Cast", [same], [whole], to=kind))
        return self.add("ReduceSum", whole, self._constant(np.array([1])), keepdims=0)

    def _coordinate(self, axis: str) -> str:
        if axis not in self.clamped:
            low, high = span(self.grid, axis)
            above = self.add("Max", self.inputs[axis], self._number(low))
            self.clamped[axis] = self.add("Min", above, self._number(high))
        return self.clamped[axis]

    def _sum(self, weights: tuple[tuple[str, float], ...]) -> str:
        if weights not in self.sums:
            parts = [
                self._coordinate(axis)
                if weight == 1.0
                else self.add("Mul", self._coordinate(axis), self._number(weight))
                for axis, weight in weights
            ]
            self.sums[weights] = reduce(lambda a, b: self.add("Add", a, b), parts)
        return self.sums[weights]

    def _said(self, node: Node) -> str:
        """The name of the (n,) or single action indices that a node gives."""
        if isinstance(node, Choose):
            return self._whole(node.action)
        if isinstance(node, Among):
            inside = self._met(Labels(node.axis, node.labels))
            return self.add("Where", inside, self._said(node.inside), self._said(node.outside))
        if isinstance(node, Except):
            said = self._said(node.otherwise)
            for place, action in zip(node.places, node.actions, strict=True):
                met = [self._met(condition) for condition in cell(self.grid, place)]
                here = reduce(lambda a, b: self.add("And", a, b), met)
                said = self.add("Where", here, self._whole(action), said)
            return said
        assert isinstance(node, Split)
        *tests, last = steps(node)
        said = self._said(last.node)
        for step in reversed(tests):
            above = self.add("Greater", self._sum(node.weights), self._number(step.cut))
            both = [self._said(step.node), said]
            said = self.add("Where", above, *(both if step.test == ">" else both[::-1]))
        return said

    def _met(self, condition: Condition) -> str:
        """Whether a condition holds: (n,) bool."""
        if isinstance(condition, Labels):
            table = np.isin(self.draft.labels(condition.axis), condition.labels)
            return self.add("Gather", self._constant(table), self.codes[condition.axis])
        assert isinstance(condition, Range)
        of = self._sum(condition.weights)
        met = []
        if math.isfinite(condition.low):
            met.append(self.add("Greater", of, self._number(condition.low)))
        if math.isfinite(condition.high):
            met.append(self.add("Not", self.add("Greater", of, self._number(condition.high))))
        if not met:
            met.append(self.add("Equal", of, of))
        return reduce(lambda a, b: self.add("And", a, b), met)
