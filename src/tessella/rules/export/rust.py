"""Rust: a module with one function from the coordinates of a state to an action.

    pub fn decide(stock: f64, season: &str) -> i32      the index, or -1 for invalid input
    pub static ORDER: [f64; 5]                          what the indices stand for

It needs nothing but the language's core. Names are those of the axes, whatever their case, and a
coordinate that the rule does not look at is checked all the same: hence the attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tessella.mdp.rule_tree import is_text_axis
from tessella.rules.export.code import CompiledFormat, CompiledPrinter
from tessella.rules.export.export_context import ExportContext, format_number, make_identifiers

# Keywords of all editions, and the variants that a name of an argument would be matched against.
RUST_WORDS = """
abstract as async await become box break const continue crate do dyn else enum extern false final fn
for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct
super trait true try type typeof unsafe unsized use virtual where while yield Some None Ok Err
"""
RUST_RESERVED_WORDS = frozenset(RUST_WORDS.split())

HARNESS_SOURCE = """#![allow(dead_code)]
mod rule;
use std::io::Read;
struct Input {
    bytes: Vec<u8>,
    position: usize,
}
impl Input {
    fn take(&mut self, size: usize) -> String {
        let first = self.position;
        self.position += size;
        String::from_utf8(self.bytes[first..self.position].to_vec()).unwrap()
    }
    fn word(&mut self, is_end: fn(u8) -> bool) -> String {
        let rest = &self.bytes[self.position..];
        let size = rest.iter().position(|&byte| is_end(byte)).unwrap();
        let word = self.take(size);
        self.position += 1;
        word
    }
    fn number(&mut self) -> f64 {
        self.word(|byte| byte == b' ' || byte == b'\\n').parse().unwrap()
    }
    fn text(&mut self) -> String {
        let size = self.word(|byte| byte == b':').parse().unwrap();
        let text = self.take(size);
        self.position += 1;
        text
    }
}
fn main() {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).unwrap();
    let mut input = Input { bytes, position: 0 };
    let mut output = String::new();
@tables@
    for _ in 0..input.number() as usize {
        output += &format!("{}\\n", rule::decide(@arguments@));
    }
    print!("{}", output);
}
"""


class RustPrinter(CompiledPrinter):
    """The text of one rule in Rust, and a program that runs it on rows."""

    comment = "// {}"
    label_guard = "if !{test} {{\n    return -1;\n}}"
    clamp_guard = (
        "if {name}.is_nan() {{\n    return -1;\n}}\nlet {name} = {name}.clamp({low}, {high});"
    )
    grid_guard = "if ![{values}].contains(&{name}) {{\n    return -1;\n}}"
    return_index = "return {}; // {}"
    assign_total = "let total = {};"
    if_block = "if {} {{"
    block_end = "}"

    def __init__(self, context: ExportContext) -> None:
        parts = make_identifiers([*context.action_columns], subject="part")
        self.table_names = {name: part.upper() for name, part in parts.items()}
        own_names = ("decide", "total", *self.table_names.values())
        super().__init__(context, (*RUST_RESERVED_WORDS, *own_names))

    def render(self) -> str:
        usage = ["decide(...) is the index of an action, or -1 for invalid input;"]
        usage += [
            f"{table}[index as usize] is what to do ({name})"
            for name, table in self.table_names.items()
        ]
        arguments = ", ".join(
            f"{name}: {'&str' if is_text_axis(self.grid, axis) else 'f64'}"
            for axis, name in self.axis_names.items()
        )
        lines = [*self.comment_lines(*usage), ""]
        for name in self.context.action_columns:
            lines += ["#[allow(dead_code)]", self._declare_table(name), ""]
        lines += ["#[allow(non_snake_case, unused_variables)]"]
        lines += [f"pub fn decide({arguments}) -> i32 {{", *self.body_lines(), "}"]
        return "\n".join(lines)

    def _declare_table(self, name: str) -> str:
        values = self.context.action_columns[name]
        is_text = isinstance(values[0], str)
        kind = "&str" if is_text else "f64"
        literals = ", ".join(map(self.format_text if is_text else format_number, values))
        return f"pub static {self.table_names[name]}: [{kind}; {len(values)}] = [{literals}];"

    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        return f"matches!({self.axis_names[axis]}, {' | '.join(map(self.format_text, labels))})"

    def format_text(self, text: str) -> str:
        """ASCII, everything but letters, digits and spaces by its code point."""
        return f'"{"".join(map(_escape_character, text))}"'

    def render_harness(self) -> str:
        tables = []
        for name, values in self.context.action_columns.items():
            line = 'format!("{:?}\\n", value)'
            if isinstance(values[0], str):
                line = 'format!("{}:{}\\n", value.len(), value)'
            loop = f"for value in rule::{self.table_names[name]}.iter()"
            tables.append(f"    {loop} {{\n        output += &{line};\n    }}")
        arguments = (
            "&input.text()" if is_text_axis(self.grid, axis) else "input.number()"
            for axis in self.grid.axes
        )
        source = HARNESS_SOURCE.replace("@tables@", "\n".join(tables))
        return source.replace("@arguments@", ", ".join(arguments))


def _escape_character(character: str) -> str:
    is_plain = character == " " or (character.isascii() and character.isalnum())
    return character if is_plain else f"\\u{{{ord(character):x}}}"


class Rust(CompiledFormat):
    """A Rust function."""

    name: ClassVar[str] = "Rust"
    suffix: ClassVar[str] = ".rs"
    printer = RustPrinter
    compilers = ("rustc",)
    flags = ("--edition=2021",)
