"""Who reads which lane: members share them evenly, and as few as possible change hands.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def share_out(
    lanes: Mapping[int, Collection[str]], owners: Mapping[int, str]
) -> Mapping[int, str | None]:
    """Give each lane's member.

    `lanes` names, for each lane, the live members that want it; `owners` who has it now. A lane that
    nobody wants has None. An owner keeps what it has up to its fair share, rounded up; what is left
    goes to whoever has least, ties by name. The same input gives the same answer.
    """
    members = sorted({member for wanting in lanes.values() for member in wanting})
    held = dict.fromkeys(members, 0)
    shared: dict[int, str | None] = dict.fromkeys(lanes)
    if not members:
        return shared
    low, extra = divmod(len(lanes), len(members))
    for lane, wanting in sorted(lanes.items()):
        owner = owners.get(lane)
        if owner is None or owner not in wanting:
            continue
        if held[owner] < low or (held[owner] == low and extra > 0):
            extra -= held[owner] == low
            held[owner] += 1
            shared[lane] = owner
    for lane, wanting in sorted(lanes.items()):
        if shared[lane] is None and wanting:
            chosen = min(wanting, key=lambda member: (held[member], member))
            held[chosen] += 1
            shared[lane] = chosen
    return shared
