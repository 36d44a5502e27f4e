"""The verdict: whether a certificate holds of a model, and what was confirmed."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from .arithmetic import write_bounds
from .claim import (
    NOT_CHECKED,
    AverageClaim,
    Rejected,
    TotalClaim,
    ValueClaim,
    read_certificate,
    read_claim,
)
from .model import Model, WrongFile, read_saved_model
from .undiscounted import check_average, check_total
from .values import check_bounds, check_figures

DAMAGE_ERRORS = (OSError, RuntimeError, MemoryError, json.JSONDecodeError, UnicodeDecodeError)
CONTENT_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def check_certificate(content: dict, model: Model) -> str:
    """Say what was confirmed, or raise Rejected at the first thing that is wrong."""
    claim = read_claim(content, model)
    if isinstance(claim, ValueClaim):
        check_bounds(claim, model, check_figures(claim, model))
        confirmed = describe_values(claim, model)
    elif isinstance(claim, AverageClaim):
        check_average(claim, model)
        confirmed = describe_average(claim, model)
    else:
        check_total(claim, model)
        confirmed = describe_total(claim, model)
    subject = f"{model.name or 'the model'} (content {model.content[:12]})"
    return f"{subject}: {confirmed}; not checked: {', '.join(NOT_CHECKED)}"


def describe_values(claim: ValueClaim, model: Model) -> str:
    low, high = write_bounds(*claim.mean_loss[1:])
    _, max_loss = write_bounds(*claim.worst_loss[1:])
    _, occupancy_error = write_bounds(0.0, claim.occupancy_error)
    return (
        f"loss {claim.mean_loss[0]:.12g} on average and {claim.worst_loss[0]:.12g} at worst, "
        f"in all of {model.n_states:,} states; "
        f"proven to be between {low} and {high} on average and at most {max_loss}, and the "
        f"occupancy right to {occupancy_error}"
    )


def describe_average(claim: AverageClaim, model: Model) -> str:
    low, high = write_bounds(*claim.loss[1:])
    return (
        f"loss {claim.loss[0]:.12g} per period from every one of {model.n_states:,} states, "
        f"proven to be between {low} and {high}; single decisions are not judged"
    )


def describe_total(claim: TotalClaim, model: Model) -> str:
    low, high = write_bounds(*claim.mean_loss[1:])
    _, max_loss = write_bounds(*claim.worst_loss[1:])
    return (
        f"loss until the end proven to be between {low} and {high} on average and at most "
        f"{max_loss} in all of {model.n_states:,} states; single decisions are not judged"
    )


def main(arguments: list[str]) -> int:
    """Print the verdict on a certificate and a model file; the exit status."""
    if len(arguments) != 2:
        print("usage: python -m tessella.checker certificate.json model.nc")
        return 2
    try:
        with np.errstate(all="ignore"):  # what is not a number fails its comparison
            certificate = read_or_reject(arguments[0], read_certificate, "a certificate")
            model = read_or_reject(arguments[1], read_saved_model, "a saved model")
            try:
                print(f"HOLDS: {check_certificate(certificate, model)}")
            except (*DAMAGE_ERRORS, *CONTENT_ERRORS) as error:
                raise Rejected(f"it cannot be checked: {error}") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        print(f"NOT CHECKED: there is no file {error.filename}")
        return 2
    except Rejected as reason:
        print(f"REJECTED: {reason}")
        return 1
    return 0


def read_or_reject(path: str, reader: Callable[[str], Any], kind: str) -> Any:
    """What ``reader`` reads, or Rejected with what is wrong with the file."""
    try:
        return reader(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(0, "", path) from error
    except WrongFile as error:
        raise Rejected(f"{path} {error}") from error
    except DAMAGE_ERRORS as error:
        raise Rejected(f"{path} cannot be read, it may be cut short: {error}") from error
    except CONTENT_ERRORS as error:
        reason = f"it lacks {error}" if isinstance(error, LookupError) else error
        raise Rejected(f"{path} cannot be read as {kind}: {reason}") from error
