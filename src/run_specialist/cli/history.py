"""The commands that show what was kept: `specialists runs`, `transcript` and `report`."""

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.console import fail, guarded, print_json, print_line, printable, say
from run_specialist.cli.flags import StoreUrl
from run_specialist.cli.private_file import write_private
from run_specialist.cli.show_runs import as_json, counted, local, one_line, print_labelled, print_rows, print_runs, size
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import Listed

SHOWN = 20
"""Runs that people are shown unless they ask for more."""
OFFERED = 50
"""Runs that a shell offers."""
ALL = sys.maxsize
"""What `--limit none` means."""
STATUSES = ("running", "interrupted", "answered", "landed", "partial", "failed", "aborted")

_AGE = re.compile(r"([0-9]{1,6})\s*([mhdw])", re.ASCII)
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _age(text: str) -> float:
    found = _AGE.fullmatch(text.strip().lower())
    if not found:
        raise typer.BadParameter(f"{text!r} is no age; write one like 12h, 30d or 8w")
    return int(found[1]) * _SECONDS[found[2]]


def _count(text: str) -> int:
    if text.strip().lower() == "none":
        return ALL
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise typer.BadParameter(f"{text!r} is no number of runs; write one, or none")
    return int(text)


def _status(text: str) -> str:
    if text not in STATUSES:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(STATUSES)}")
    return text


def complete_runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the ids of runs to a shell, each with its question."""
    try:
        with _open(context.params.get("store")) as opened:
            found = opened.runs(ids=[incomplete] if incomplete else (), limit=OFFERED)
    except Exception:  # noqa: BLE001 - a shell that completes wants ids or nothing
        return []
    return [(one.run_id, printable(one_line(one.question))) for one in found]


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
RunId = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or `last`.", autocompletion=complete_runs),
]


def runs(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Ids or their beginnings, or `last`.", autocompletion=complete_runs),
    ] = None,
    specialist: Annotated[str | None, typer.Option(metavar="NAME", help="Runs of this specialist.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS", parser=_status, autocompletion=lambda: STATUSES, help=f"One of {', '.join(STATUSES)}."
        ),
    ] = None,
    older_than: Annotated[
        float | None, typer.Option(metavar="AGE", parser=_age, help="Runs that ended so long ago: 12h, 30d, 8w.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N|none", parser=_count, help=f"The newest N.  [default: {SHOWN}; with --json or --delete, none]"
        ),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete what is chosen, with all that was kept of it.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Choose every run.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """List the runs that were kept, the newest first, or delete some of them."""
    if delete and not (all_ or ids or specialist or status or older_than is not None):
        fail("--delete wants to know what: RUN..., --specialist, --status, --older-than, or --all")
    limit = limit if limit is not None else ALL if all_ or delete or json_ else SHOWN
    with guarded():
        try:
            opened = _open(store)
        except StoreMissing as missing:
            if json_:
                print_json({"runs": [], **({"deleted": []} if delete else {}), **_place(store)})
            say(str(missing))
            return
        with opened:
            # What is deleted by its id must be that run and no other.
            ids = [opened.find(one).run_id for one in ids] if delete and ids else ids
            found = _choose(opened, ids or [], specialist, status, older_than, limit)
            more = len(found) > limit
            found = found[:limit]
            if delete:
                _delete(opened, found, named=bool(ids), yes=yes, json_=json_)
            elif json_:
                print_json({"runs": [as_json(one) for one in found], **_place(opened)})
            else:
                print_runs(found)
                say(f"{'the newest ' if more else ''}{counted(len(found))} · {_kept(opened)}", dim=True)


def transcript(run: RunId, store: StoreUrl = None, json_: Json = False) -> None:
    """Show all that was said in a run, call by call."""
    with guarded(), _open(store) as opened:
        from run_specialist.store.conversation import transcript_rows  # noqa: PLC0415 - fast `--help`

        kept = opened.load(run)
        rows = transcript_rows(kept)
        if json_:
            about = {"run_id": kept.run_id, "specialist": kept.specialist, "status": kept.status}
            asked = [
                {"run_id": one.run_id, "specialist": one.specialist, "status": one.status} for one in kept.children
            ]
            print_json({**about, "parent_id": kept.parent_id, "children": asked, "messages": rows})
            return
        print_labelled(f"{kept.run_id}  {kept.specialist}  {kept.status}  {local(kept.started_at)}")
        if kept.parent_id:
            print_labelled(f"asked by {kept.parent_id}")
        for one in kept.children:
            print_labelled(f"asked {one.run_id}  {one.specialist}  {one.status}")
        print_rows(rows)


def report(
    run: RunId,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write; `-` is standard output.  [default: report-RUN.html]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    store: StoreUrl = None,
    json_: Annotated[bool, typer.Option("--json", help="Print what the page is made of as one JSON object.")] = False,
) -> None:
    """Write a page about a run that a browser shows: budget, timeline, tokens, calls."""
    with guarded(), _open(store) as opened:
        from run_specialist.views import report as view  # noqa: PLC0415 - fast `--help`
        from run_specialist.views.page.child_runs import below  # noqa: PLC0415 - likewise

        kept = opened.load(run)
        if json_:
            print_json(view.data(kept, below(kept, opened.load)))
            return
        page = view.report(kept, below(kept, opened.load)).encode("utf-8", "replace")
        if out == Path("-"):
            if sys.stdout is not None:
                sys.stdout.buffer.write(page)
                sys.stdout.buffer.flush()
            return
        path = out or Path(f"report-{kept.run_id}.html")
        try:
            write_private(path, page, overwrite=force)
        except FileExistsError:
            fail(f"{path} is there already; --force writes over it")
        print_line(str(path))


def _open(store: str | None) -> "Store":
    """Open the store that is meant; raises StoreUnusable."""
    from run_specialist.store.location import place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - likewise

    return Store(place(store).url)


def _choose(
    opened: "Store",
    ids: Sequence[str],
    specialist: str | None,
    status: str | None,
    older_than: float | None,
    limit: int,
) -> list["Listed"]:
    """Return what is chosen, and one run more where there are more than `limit`."""
    from run_specialist.store.reader import LAST  # noqa: PLC0415 - fast `--help`

    ids = [opened.find(one).run_id if one == LAST else one for one in ids]
    before = None if older_than is None else time.time() - older_than
    found = opened.runs(
        ids=ids, specialist=specialist, status=status, before=before, limit=None if limit == ALL else limit + 1
    )
    for one in ids:
        if not any(run.run_id.startswith(one) for run in found) and not opened.runs(ids=[one], limit=1):
            # Raises, and names what is near.
            opened.find(one)
    return found


def _delete(opened: "Store", found: list["Listed"], *, named: bool, yes: bool, json_: bool) -> None:
    """Delete runs; what is still at work stays, and is refused where it was named by its id."""
    gone = [one for one in found if named or one.status != "running"]
    if gone and not yes and (sys.stdin is None or not sys.stdin.isatty()):
        fail("--yes is needed where nobody can be asked; nothing was deleted")
    if len(gone) < len(found):
        say(f"{counted(len(found) - len(gone))} still at work: that stays")
    if not json_:
        print_runs(gone)
    if gone and not yes and not typer.confirm(f"Delete {counted(len(gone))} for good?", err=True):
        fail("nothing was deleted", 0)
    freed = opened.delete([one.run_id for one in gone])
    if json_:
        deleted = {"runs": [as_json(one) for one in gone], "deleted": [one.run_id for one in gone]}
        print_json({**deleted, **_place(opened)})
    else:
        room = f", {size(freed)} freed" if freed else ""
        say(f"{counted(len(gone))} deleted{room} · {_kept(opened)}", dim=True)


def _place(store: "Store | str | None") -> dict[str, Any]:
    from run_specialist.store.location import place, shown  # noqa: PLC0415 - fast `--help`

    if store is None or isinstance(store, str):
        return {"store": shown(place(store).url), "size_bytes": 0}
    return {"store": shown(store.url), "size_bytes": store.size}


def _kept(opened: "Store") -> str:
    place = _place(opened)
    return f"{size(place['size_bytes'])} in {place['store']}"
