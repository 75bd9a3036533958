"""The command `specialists show`: print the settings of a specialist, and what a run of it would get."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from run_specialist.api.flag_names import with_flags
from run_specialist.cli.cannot_work import unavailable
from run_specialist.cli.console import guarded, print_json, print_line
from run_specialist.cli.effective_block import EffectiveBlock
from run_specialist.cli.flags import Dir, Json, PresetName, ProjectRoot, SpecialistName, StoreUrl
from run_specialist.cli.from_config import configured_project
from run_specialist.cli.printed_files import one_line, print_problems, project_folder, relative
from run_specialist.cli.table import print_table
from run_specialist.cli.trust_flag import trust_status

if TYPE_CHECKING:
    from run_specialist.specialist.loader import SpecialistFile
    from run_specialist.specialist.settings import Setting


def show(
    name: SpecialistName,
    preset: PresetName = None,
    dir_: Dir = None,
    root: ProjectRoot = None,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """Show a specialist's settings with sources, and what a run gets."""
    with guarded():
        from run_specialist.specialist.resolve import resolve  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.settings import settings_of  # noqa: PLC0415 - fast `--help`

        project, meant = project_folder(root), root is not None
        configured = configured_project(project, dir_, meant=meant)
        file = configured.registry.find(name)
        settings = settings_of(resolve(file, {"preset": preset})) if file.specialist else []
        trusted, trust_line = trust_status(file, file.specialist, project) if file.specialist else (None, "")
        reason = unavailable([file], project, configured.defaults.model).get(file.path, "")
        block = EffectiveBlock.of(file, root, configured.dir, preset, store, configured.defaults)
        if json_:
            prompt = file.specialist.prompt if file.specialist else None
            values = {setting.key: setting.as_json() for setting in settings}
            here = {"trusted": trusted, "unavailable": reason or None, "effective": block and block.as_json()}
            print_json(file.as_json() | {"settings": values, "prompt": prompt} | here)
        else:
            _print_specialist(file, settings, trust_line, reason)
            if block:
                block.print()


def _print_specialist(file: "SpecialistFile", settings: Sequence["Setting"], trust_line: str, reason: str) -> None:
    from run_specialist.specialist.problems import shown  # noqa: PLC0415 - fast `--help`

    print_line(f"{one_line(file.name)}  {file.status}  {relative(file.path)}\n{one_line(file.description)}\n")
    if reason:
        print_line(f"{one_line(with_flags(f'cannot work here: {reason}'))}\n")
    if settings:
        print_table(("KEY", "FROM", "VALUE"), [(one.key, str(one.origin), one.shown) for one in settings])
    if trust_line:
        print_line(f"\n{one_line(trust_line)}")
    if file.problems:
        print_line("")
        print_problems(file.problems)
    if file.specialist:
        print_line("\n" + shown(file.specialist.prompt, None, keep="\n\t"))
