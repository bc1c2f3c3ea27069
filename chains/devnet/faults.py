"""Lies and faults that end by themselves: which, on which methods, how often. Pure.

A *transport* fault spoils the whole HTTP answer (or drops the socket), an *answer* fault changes one
call's result or turns it into an error, a *notice* fault changes what a subscription is told.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from chains.devnet.rpc_errors import RANGE_WORDINGS, Refusal

FAULTS_MAX: Final = 1_000


class Fault(Struct, frozen=True, kw_only=True, tag_field="fault"):
    """When a fault strikes. No `methods`: any. `skip` lets the first ones pass, `times` None: always."""

    methods: tuple[str, ...] = ()
    times: int | None = 1
    skip: int = 0


class Transport(Fault, frozen=True, kw_only=True):
    """A fault of the connection."""


class HttpStatus(Transport, frozen=True, kw_only=True, tag="http_status"):
    """Answer with a status: 429 with Retry-After, 500, 502, 503."""

    status: int
    retry_after_s: int | None = None
    body: str = ""


class Hang(Transport, frozen=True, kw_only=True, tag="hang"):
    """Say nothing until the client leaves, or for so long, and then answer."""

    seconds: float = 600.0


class CutOff(Transport, frozen=True, kw_only=True, tag="cut_off"):
    """Close the connection in the middle of the body."""

    after_bytes: int = 20


class SlowBody(Transport, frozen=True, kw_only=True, tag="slow_body"):
    """Send the body in drops."""

    chunk_bytes: int = 16
    pause_s: float = 0.05


class HugeBody(Transport, frozen=True, kw_only=True, tag="huge_body"):
    """Stream a result without end; `size_bytes` is the most that is ever sent."""

    size_bytes: int = 2**30


class InvalidJson(Transport, frozen=True, kw_only=True, tag="invalid_json"):
    """Answer 200 with something else."""

    body: str = "<html>gateway</html>"


class DropSocket(Transport, frozen=True, kw_only=True, tag="drop_socket"):
    """Close the connection without an answer."""


class Answering(Fault, frozen=True, kw_only=True):
    """A fault of one call's answer."""


class Refuse(Answering, frozen=True, kw_only=True, tag="refuse"):
    """Answer with an error."""

    code: int = -32000
    message: str = "internal error"
    data: Any = None
    http_status: int = 200

    def refusal(self) -> Refusal:
        """Give the error member."""
        return Refusal(
            code=self.code, message=self.message, data=self.data, http_status=self.http_status
        )


class RefuseRange(Answering, frozen=True, kw_only=True, tag="refuse_range"):
    """Refuse a range of logs in a hosted node's words (`rpc_errors.RANGE_WORDINGS`)."""

    wording: str = "10000_results"

    def refusal(self) -> Refusal:
        """Give the error member."""
        return RANGE_WORDINGS[self.wording]


class WrongId(Answering, frozen=True, kw_only=True, tag="wrong_id"):
    """Answer another question's id."""


class Replace(Answering, frozen=True, kw_only=True, tag="replace"):
    """Answer with exactly this; by default with null."""

    result: Any = None


class Truncate(Answering, frozen=True, kw_only=True, tag="truncate"):
    """Keep only the first rows of a list (logs, receipts, traces); none: an empty list."""

    keep: int = 0


class DuplicateLogs(Answering, frozen=True, kw_only=True, tag="duplicate_logs"):
    """Give each log twice, in full."""


class ConflictingLogs(Answering, frozen=True, kw_only=True, tag="conflicting_logs"):
    """Give each log a second time with another amount."""


class ForeignLogs(Answering, frozen=True, kw_only=True, tag="foreign_logs"):
    """Add a copy of each log that says it is of another block."""

    block_hash: str = "0x" + "f0" * 32


class RemovedLogs(Answering, frozen=True, kw_only=True, tag="removed_logs"):
    """Mark every log as removed."""


class Behind(Answering, frozen=True, kw_only=True, tag="behind"):
    """Answer as another node behind the same URL would, which lags by so many blocks."""

    blocks: int = 20


class SetField(Answering, frozen=True, kw_only=True, tag="set_field"):
    """Set a field of the result, or of every object in it: a wrong root, hash, status, parent."""

    field: str
    value: Any


class Notice(Fault, frozen=True, kw_only=True):
    """A fault of what a subscription is told; `methods` are `newHeads` or `logs`."""


class Withhold(Notice, frozen=True, kw_only=True, tag="withhold"):
    """Do not tell: a skipped head, a lost log."""


class TellTwice(Notice, frozen=True, kw_only=True, tag="tell_twice"):
    """Tell the same again."""


#: Faults that any family's node may have.
SharedFault = (
    HttpStatus
    | Hang
    | CutOff
    | SlowBody
    | HugeBody
    | InvalidJson
    | DropSocket
    | Refuse
    | WrongId
    | Replace
    | Truncate
    | Behind
    | SetField
)
#: Those of an EVM node.
AnyFault = (
    SharedFault
    | RefuseRange
    | DuplicateLogs
    | ConflictingLogs
    | ForeignLogs
    | RemovedLogs
    | Withhold
    | TellTwice
)


class _Armed(Struct):
    fault: Fault
    passed: int = 0
    struck: int = 0


class FaultBook:
    """The faults of one node, and how often each has struck."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []

    def add(self, fault: Fault) -> None:
        """Arm a fault."""
        if len(self._armed) >= FAULTS_MAX:
            message = f"a node has at most {FAULTS_MAX} faults"
            raise OverflowError(message)
        self._armed.append(_Armed(fault))

    def clear(self) -> None:
        """Disarm all."""
        self._armed.clear()

    def struck(self) -> int:
        """Tell how often any fault has struck, those that are spent included."""
        return sum(armed.struck for armed in self._armed)

    def take(self, method: str, kind: type[Fault]) -> list[Fault]:
        """Give the faults of a kind that strike this method now, and count them."""
        striking = []
        for armed in self._armed:
            fault = armed.fault
            if not isinstance(fault, kind) or (fault.methods and method not in fault.methods):
                continue
            if armed.passed < fault.skip:
                armed.passed += 1
            elif fault.times is None or armed.struck < fault.times:
                armed.struck += 1
                striking.append(fault)
        return striking
