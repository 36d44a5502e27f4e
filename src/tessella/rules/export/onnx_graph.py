"""ONNX: the rule as a graph of comparisons in double precision.

    inputs      one for each axis, (n,): double, or string for a text axis
    outputs     action_index (n,) int64, -1 for what is rejected; and what to do: one for each
                component of the action, NaN or "" for what is rejected

Needs the extra ``onnx``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import require_extra
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Node, Split, is_text_axis
from tessella.rules.comparisons import (
    Condition,
    LabelSet,
    SumRange,
    get_axis_ends,
    list_branch_tests,
    list_finite_ends,
    list_nearest_conditions,
)
from tessella.rules.export.export_context import (
    UNKNOWN_ACTION_INDEX,
    ExportContext,
    ExportFormat,
    InputRows,
    ToolMissing,
    make_identifiers,
    to_comment_text,
)

ONNX_OPSET_VERSION = 17  # version of the default operator set
ONNX_ML_OPSET_VERSION = 2  # version of the operator set ai.onnx.ml
ONNX_IR_VERSION = 8  # version of the file format
INDEX_OUTPUT_NAME = "action_index"
CHUNK_ROWS = 1 << 14  # rows that a graph is run on at once: it keeps one array for each comparison


class OnnxGraph(ExportFormat):
    """A graph for any ONNX runtime."""

    name: ClassVar[str] = "ONNX"
    suffix: ClassVar[str] = ".onnx"

    def require_packages(self) -> None:
        with require_extra("exporting to ONNX", "onnx"):
            import onnx  # noqa: F401

    def write(self, context: ExportContext) -> bytes:
        self.require_packages()
        import onnx

        model = GraphBuilder(context, onnx).build_model()
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        try:
            import onnxruntime
        except ImportError as error:
            raise ToolMissing(
                "onnxruntime is missing, which comes with the extra 'onnx'"
            ) from error
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            content, settings, providers=["CPUExecutionProvider"]
        )
        inputs = {}
        for axis, given in zip(context.grid.axes, session.get_inputs(), strict=True):
            dtype = object if is_text_axis(context.grid, axis) else float
            inputs[given.name] = np.array(rows[axis], dtype=dtype)
        count = len(rows[context.grid.axes[0]])
        answers = []
        for first in range(0, count, CHUNK_ROWS):
            chunk = {name: values[first : first + CHUNK_ROWS] for name, values in inputs.items()}
            answers.append([np.asarray(part) for part in session.run(None, chunk)])
        index, *parts = map(np.concatenate, zip(*answers, strict=True))
        is_valid = index >= 0
        for values, part in zip(context.action_columns.values(), parts, strict=True):
            chosen = index[is_valid]
            is_correct = part[is_valid] == np.asarray(values)[chosen]
            index[is_valid] = np.where(is_correct, chosen, UNKNOWN_ACTION_INDEX)
        return index


class GraphBuilder:
    """The graph of one rule, node by node."""

    def __init__(self, context: ExportContext, onnx: Any) -> None:
        self.context = context
        self.grid = context.grid
        self.onnx = onnx
        self.nodes: list = []
        self.constants: dict[str, Any] = {}
        self.inputs = make_identifiers(context.grid.axes, (INDEX_OUTPUT_NAME,))
        self.outputs = make_identifiers(
            [*context.action_columns], (INDEX_OUTPUT_NAME, *self.inputs.values()), "part"
        )
        self.label_codes: dict[str, str] = {}  # text axis -> the places of its labels
        self.results: dict[tuple, str] = {}  # what a node does -> its output

    def build_model(self) -> Any:
        helper = self.onnx.helper
        tensor = self.onnx.TensorProto
        is_valid = self._fold("And", map(self._add_input_test, self.grid.axes))
        answer = self._add_rule_node(self.context.root)
        self.add("Where", is_valid, answer, self._add_constant(-1), output=INDEX_OUTPUT_NAME)
        outputs = [helper.make_tensor_value_info(INDEX_OUTPUT_NAME, tensor.INT64, ["n"])]
        for name, values in self.context.action_columns.items():
            is_text = isinstance(values[0], str)
            table = np.array([*values, ""], object) if is_text else np.array([*values, math.nan])
            self.add(
                "Gather", self._add_constant(table), INDEX_OUTPUT_NAME, output=self.outputs[name]
            )
            element_type = tensor.STRING if is_text else tensor.DOUBLE
            outputs.append(helper.make_tensor_value_info(self.outputs[name], element_type, ["n"]))
        inputs = []
        for axis, name in self.inputs.items():
            element_type = tensor.STRING if is_text_axis(self.grid, axis) else tensor.DOUBLE
            inputs.append(helper.make_tensor_value_info(name, element_type, ["n"]))
        about = "\n".join(map(to_comment_text, self.context.header_lines))
        graph = helper.make_graph(
            self.nodes, "rule", inputs, outputs, [*self.constants.values()], doc_string=about
        )
        opsets = [
            helper.make_opsetid("", ONNX_OPSET_VERSION),
            helper.make_opsetid("ai.onnx.ml", ONNX_ML_OPSET_VERSION),
        ]
        settings = {"ir_version": ONNX_IR_VERSION, "producer_name": "tessella"}
        model = helper.make_model(graph, opset_imports=opsets, doc_string=about, **settings)
        facts = {"facts": self.context.facts, "inputs": self.inputs, "outputs": self.outputs}
        facts["actions"] = [
            self.context.describe_action(i) for i in range(len(self.context.policy.actions))
        ]
        helper.set_model_props(model, {key: json.dumps(value) for key, value in facts.items()})
        return model

    def add(self, op_type: str, *inputs: str, output: str = "", **settings: Any) -> str:
        """The name of the output of a node, which is added unless there is one like it."""
        key = (op_type, *inputs, repr(settings))
        if output or key not in self.results:
            self.results[key] = output or f":{len(self.nodes)}"
            outputs = [self.results[key]]
            self.nodes.append(self.onnx.helper.make_node(op_type, [*inputs], outputs, **settings))
        return self.results[key]

    def _fold(self, op_type: str, inputs: Iterable[str]) -> str:
        """Join inputs by an operation of two; the name of the result."""
        return reduce(lambda a, b: self.add(op_type, a, b), inputs)

    def _add_constant(self, values: Any) -> str:
        """A constant, stored once; the name of it."""
        array = np.asarray(values)
        key = f"={array.dtype.str}{array.shape}{array.tolist()!r}"
        if key not in self.constants:
            name = f"={len(self.constants)}"
            self.constants[key] = self.onnx.numpy_helper.from_array(array, name)
        return self.constants[key].name

    def _add_input_test(self, axis: str) -> str:
        """Whether the coordinate is not rejected: (n,) bool."""
        tensor = self.onnx.TensorProto
        name = self.inputs[axis]
        if is_text_axis(self.grid, axis):
            labels = [*self.context.axis_labels(axis)]
            codes = {"keys_strings": labels, "values_int64s": [*range(len(labels))]}
            self.label_codes[axis] = self.add(
                "LabelEncoder", name, domain="ai.onnx.ml", default_int64=-1, **codes
            )
            return self.add("Greater", self.label_codes[axis], self._add_constant(-1))
        if self.context.off_grid == "refuse":
            last_axis = self._add_constant(np.array([1]))
            column = self.add("Unsqueeze", name, last_axis)
            known = self._add_constant(np.array(self.context.axis_values(axis)))
            matches = self.add("Cast", self.add("Equal", column, known), to=tensor.INT64)
            count = self.add("ReduceSum", matches, last_axis, keepdims=0)
            return self.add("Greater", count, self._add_constant(0))
        return self.add("Equal", name, name)

    def _add_sum(self, weights: tuple[tuple[str, float], ...]) -> str:
        """A weighted sum of coordinates, each moved to the ends of its axis."""
        parts = []
        for axis, weight in weights:
            low, high = get_axis_ends(self.grid, axis)
            above = self.add("Max", self.inputs[axis], self._add_constant(low))
            part = self.add("Min", above, self._add_constant(high))
            if weight != 1.0:
                part = self.add("Mul", part, self._add_constant(float(weight)))
            parts.append(part)
        return self._fold("Add", parts)

    def _add_rule_node(self, node: Node) -> str:
        """The name of the (n,) or single action indices that a node gives."""
        if isinstance(node, Leaf):
            return self._add_constant(node.action)
        if isinstance(node, LabelSplit):
            test = self._add_condition(LabelSet(node.axis, node.labels))
            inside, outside = map(self._add_rule_node, (node.inside, node.outside))
            return self.add("Where", test, inside, outside)
        if isinstance(node, Exceptions):
            answer = self._add_rule_node(node.otherwise)
            for state, action in zip(node.places, node.actions, strict=True):
                nearest = list_nearest_conditions(self.grid, state)
                is_here = self._fold("And", map(self._add_condition, nearest))
                answer = self.add("Where", is_here, self._add_constant(action), answer)
            return answer
        assert isinstance(node, Split)
        *tests, last = list_branch_tests(node)
        answer = self._add_rule_node(last.node)
        for step in reversed(tests):
            total = self._add_sum(node.weights)
            above = self.add("Greater", total, self._add_constant(float(step.cut)))
            answers = [self._add_rule_node(step.node), answer]
            if step.comparison == "<=":
                answers.reverse()
            answer = self.add("Where", above, *answers)
        return answer

    def _add_condition(self, condition: Condition) -> str:
        """Whether a condition holds: (n,) bool."""
        if isinstance(condition, LabelSet):
            table = np.isin(self.context.axis_labels(condition.axis), condition.labels)
            return self.add("Gather", self._add_constant(table), self.label_codes[condition.axis])
        assert isinstance(condition, SumRange)
        operand = self._add_sum(condition.weights)
        tests = []
        for comparison, end in list_finite_ends(condition):
            above = self.add("Greater", operand, self._add_constant(float(end)))
            tests.append(above if comparison == ">" else self.add("Not", above))
        if not tests:
            tests.append(self.add("Equal", operand, operand))
        return self._fold("And", tests)
