"""What every certificate is: a statement about a policy of a model, which a file can carry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from tessella.grid import StateGrid
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy


@dataclass(frozen=True, eq=False)
class CertificateBase(ABC):
    """What a certificate is about, whatever it states.

    Attributes:
        model, fingerprint, action_name: the model.
        minimise: whether the model is stated in costs; then the summary speaks of them.
        policy: the policy.
        mdp: the model itself; None for a certificate from a file or another process.
        FORMAT: name and version of its document.
    """

    FORMAT: ClassVar[tuple[str, int]]
    model: str
    fingerprint: str
    minimise: bool
    action_name: str
    policy: Policy
    mdp: MDP | None = field(default=None, repr=False, kw_only=True)

    @cached_property
    def content(self) -> str | None:
        """Hash of the arrays of the model's file, by which the checker knows it.

        None for a model that is too large to be written out.
        """
        return None if self.mdp is None else self.mdp.content

    def __getstate__(self) -> dict[str, Any]:
        # A staged model's functions do not travel between processes; its hash does.
        return {**self.__dict__, "mdp": None, "content": self.content}

    @property
    def grid(self) -> StateGrid:
        return self.policy.grid

    @property
    def actions(self) -> tuple:
        return self.policy.actions

    @abstractmethod
    def paragraphs(self) -> list[str]:
        """The summary without its title and not broken into lines, for pages of any width."""

    def summary(self) -> str:
        """The findings in words, for a reader who knows the business and not the mathematics."""
        from tessella.certificates.summary import write_summary

        return write_summary(self)

    def __str__(self) -> str:
        """Title and cost: the first two paragraphs of the summary."""
        return "\n".join(self.summary().split("\n\n")[:2])

    def save(self, path: str | Path) -> None:
        """Write as JSON, for ``load`` and for ``python -m tessella.checker``."""
        from tessella.certificates.certificate_file import save

        save(self, path)
