"""Policies, rules and certificates in files, in the form that the ending of the name states."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tessella.files import read_json, require_writable

if TYPE_CHECKING:
    from tessella.certificates.certificate import Certificate
    from tessella.mdp.policy import Policy


def read_policy(path: Path) -> Policy:
    """A rule or a policy from the file where ``save`` put it."""
    from tessella.mdp.policy import Policy
    from tessella.rules.rule import RULE_FORMAT, Rule

    content = read_json(path, "a saved rule or policy")
    is_rule = isinstance(content, dict) and content.get("format") == RULE_FORMAT
    return Rule.load(path) if is_rule else Policy.load(path)


def require_writable_targets(paths: Iterable[Path]) -> None:
    """Before any work: files of a known ending, in folders that are there, that can be written."""
    from tessella.rules.export.export import find_target

    for path in paths:
        find_target(path).require_packages()
        require_writable(path)


def write_policy(policy: Policy, out: Path) -> str:
    """Write a policy by the ending of ``out``, and return a line about it."""
    from tessella.rules.export.export import export

    if out.suffix.lower() == ".json":
        policy.save(out)
        return f"{out}: saved, for other commands"
    return str(export(policy, out))


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Errors and losses, each loss with its bounds.

    Certificates of averages and of totals hold no figures of single decisions or a worst state.
    """

    def interval_json(figure: Any) -> dict[str, float] | None:
        if figure is None:
            return None
        return {"value": float(figure), "lower": figure.lower, "upper": figure.upper}

    state = certificate.worst_state
    return {
        "policy_error": certificate.policy_error,
        "costly_error": certificate.costly_error,
        "mean_loss": interval_json(certificate.mean_loss),
        "relative_loss": interval_json(certificate.relative_loss),
        "worst_loss": interval_json(certificate.worst_loss),
        "worst_state": None if state is None else certificate.grid.describe(state),
    }
