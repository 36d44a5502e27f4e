"""The verdict: whether a certificate holds of a model, and what was confirmed."""

import json
from collections.abc import Callable
from typing import Any, get_type_hints

import numpy as np

from .arithmetic import write_bounds
from .claim import (
    AverageClaim,
    Claim,
    Header,
    NotChecked,
    Rejected,
    StatedConstrained,
    TotalClaim,
    ValueClaim,
    check_actions,
    read_certificate,
    read_claim,
    read_record,
)
from .constrained import check_constrained
from .model import Model, WrongFile, is_netcdf, read_saved_model
from .undiscounted import check_average, check_total
from .values import check_values

SHARED_FIELDS = (*get_type_hints(Header), "policy", "start")  # of certificates within another
NOT_CHECKED = ("policy.name", "policy.size")
CHECK_BY_CRITERION: dict[str, tuple[type[Claim], Callable[[Any, Model], str]]] = {
    "discounted": (ValueClaim, check_values),
    "horizon": (ValueClaim, check_values),
    "average": (AverageClaim, check_average),
    "total": (TotalClaim, check_total),
}
DAMAGE_ERRORS = (OSError, RuntimeError, MemoryError, json.JSONDecodeError, UnicodeDecodeError)
CONTENT_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def check_certificate(content: dict, model: Model) -> str:
    """Say what was confirmed, or raise Rejected at the first thing that is wrong."""
    record, check = CHECK_BY_CRITERION[model.criterion]
    constrained = content.pop("constrained", None)
    claim = read_claim(record, content, model)
    check_actions("policy.table", claim.policy.table, model)
    remark = check(claim, model)
    if constrained is not None:
        shared = {name: content[name] for name in SHARED_FIELDS if name in content}

        def check_nested(path: str, nested: dict, paying: Model) -> Claim:
            try:
                nested_claim = read_claim(record, nested | shared, paying)
                check(nested_claim, paying)
            except Rejected as reason:
                raise Rejected(f"{path}: {reason}") from reason
            return nested_claim

        stated = read_record(StatedConstrained, constrained, model, "constrained.")
        remark += f"; {check_constrained(stated, claim, model, check_nested)}"
    low, high = write_bounds(*claim.mean_loss[1:])
    _, max_loss = write_bounds(*claim.worst_loss[1:])
    unit = " per period" if model.criterion == "average" else ""
    return (
        f"{model.name or 'the model'} (content {model.content[:12]}): "
        f"loss{unit} {claim.mean_loss[0]:.12g} on average and {claim.worst_loss[0]:.12g} at worst, "
        f"in all of {model.n_states:,} states; proven to be between {low} and {high} on average "
        f"and at most {max_loss}, and {remark}; not checked: {', '.join(NOT_CHECKED)}"
    )


def main(arguments: list[str]) -> int:
    """Print the verdict on a model file and a certificate; the exit status."""
    if len(arguments) != 2:
        print("usage: python -m tessella.checker model.nc certificate.json")
        return 2
    try:
        with np.errstate(all="ignore"):  # what is not a number fails its comparison
            model_path, certificate_path = arguments
            is_second_netcdf = read_or_reject(certificate_path, is_netcdf, "a certificate")
            if is_second_netcdf and not read_or_reject(model_path, is_netcdf, "a saved model"):
                raise NotChecked("the arguments seem to be swapped: the model comes first")
            certificate = read_or_reject(certificate_path, read_certificate, "a certificate")
            model = read_or_reject(model_path, read_saved_model, "a saved model")
            try:
                print(f"HOLDS: {check_certificate(certificate, model)}")
            except (*DAMAGE_ERRORS, *CONTENT_ERRORS) as error:
                raise Rejected(f"it cannot be checked: {error}") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        print(f"NOT CHECKED: there is no file {error.filename}")
        return 2
    except NotChecked as reason:
        print(f"NOT CHECKED: {reason}")
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
