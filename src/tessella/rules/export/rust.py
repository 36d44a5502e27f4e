"""Rust: a module with one function from the coordinates of a state to an action.

    pub fn decide(stock: f64, season: &str) -> i32      the index, or -1 for invalid input
    pub static ORDER: [f64; 5]                          what the indices mean

It needs nothing but the language's core. Names are those of the axes, whatever their case, and a
coordinate that the rule does not look at is checked all the same, so the attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tessella.mdp.rule_tree import is_text_axis
from tessella.rules.export.code import CompiledFormat, CompiledPrinter

# Keywords of all editions, and the variants that a name of an argument would be matched against.
RUST_WORDS = """
abstract as async await become box break const continue crate do dyn else enum extern false final fn
for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct
super trait true try type typeof unsafe unsized use virtual where while yield Some None Ok Err
"""
RUST_RESERVED_WORDS = frozenset(RUST_WORDS.split())

HARNESS_SOURCE = """#![allow(dead_code)]
mod rule;
@labels@
fn main() {
    let input = std::io::read_to_string(std::io::stdin()).unwrap();
    let numbers: Vec<f64> = input.split_whitespace().map(|x| x.parse().unwrap()).collect();
    let mut output = String::new();
@tables@
    for row in numbers.chunks(@width@) {
        output += &format!("{}\\n", rule::@call@);
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
    number_type = "f64"
    text_type = "&str"
    table_declaration = "#[allow(dead_code)]\npub static {table}: [{type}; {count}] = [{values}];\n"
    table_entry = "{table}[index as usize]"
    print_numbers = '    for x in rule::{table}.iter() {{ output += &format!("{{:?}}\\n", x); }}'
    print_texts = (
        '    for x in rule::{table}.iter() {{ output += &format!("{{}}:{{}}\\n", x.len(), x); }}'
    )
    row_number = "row[{position}]"
    row_label = "{table}[row[{position}] as usize]"
    reserved_words = RUST_RESERVED_WORDS
    harness = HARNESS_SOURCE

    def name_table(self, part: str) -> str:
        return part.upper()

    def render(self) -> str:
        arguments = ", ".join(
            f"{name}: {'&str' if is_text_axis(self.grid, axis) else 'f64'}"
            for axis, name in self.axis_names.items()
        )
        lines = [*self.comment_lines(*self.list_usage()), ""]
        lines += self.declare_action_tables()
        lines += ["#[allow(non_snake_case, unused_variables)]"]
        lines += [f"pub fn decide({arguments}) -> i32 {{", *self.body_lines(), "}"]
        return "\n".join(lines)

    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        return f"matches!({self.axis_names[axis]}, {' | '.join(map(self.format_text, labels))})"

    def format_text(self, text: str) -> str:
        """ASCII, everything but letters, digits and spaces by its code point."""
        return f'"{"".join(map(_escape_character, text))}"'


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
