"""Are the database's seals those that were published? Reads the file of seals beside the database."""

from __future__ import annotations

from pathlib import Path

from reconciler.audit.journal import Verified
from reconciler.storage.seal_file import SealFileError, published_seals
from reconciler.storage.seals import SealRow, all_seals, seal_hash
from reconciler.storage.unit_of_work import Work


async def verify_published(work: Work, path: Path, verdict: Verified) -> int:
    """Compare each published seal with the database's of its number; gives how many there are.

    A seal of the database that is not published yet is no fault, a published one that the database does
    not have is: somebody has put back an older state of it.
    """
    stored = all_seals(work)
    row = await anext(stored, None)
    count = 0
    try:
        for line in published_seals(path):
            count += 1
            name = f"published seal {line.number}"
            if seal_hash(bytes(line.body)).hex() != line.hash:
                verdict.blame(f"{name} was changed in {path}")
            while row is not None and row.number < line.number:
                verdict.blame(f"seal {row.number} of the database was never published")
                row = await anext(stored, None)
            if row is None or row.number != line.number:
                verdict.blame(f"{name} is not in the database")
                continue
            if _differs(row, line.hash, line.signature):
                verdict.blame(f"{name} is another one than the database's")
            row = await anext(stored, None)
    except SealFileError as error:
        verdict.blame(str(error))
    return count


def _differs(row: SealRow, hash_hex: str, signature_hex: str) -> bool:
    return (row.hash.hex(), row.signature.hex()) != (hash_hex, signature_hex)
