"""Read a JSON Schema from a JSON or YAML file, or from Python values, as plain JSON."""

import json
from pathlib import Path

from run_specialist.safe_files import safe_open
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.reading.decoding import decode
from run_specialist.specialist.reading.nodes import LONGEST, Chunk, UnreadableError, parse, value_of


def read(path: Path, project: Path | None = None) -> object:
    """Return the content of a file, parsed as JSON or otherwise as YAML.

    project: Folder that the path must stay in; None to allow any path.
    Raises ValueError naming the file.
    """
    name = shown(str(path), None)
    text = decode(_data(path, name, project), Problems(path))
    if len(text) > LONGEST:
        raise ValueError(f"{name}: is longer than {LONGEST:,} characters")
    try:
        return plain(json.loads(text))
    except json.JSONDecodeError as error:
        if path.suffix.lower() == ".json":
            raise ValueError(f"{name}:{error.lineno}:{error.colno}: is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"{name}: is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return _yaml(text, name)


def _data(path: Path, name: str, project: Path | None) -> bytes:
    try:
        with safe_open.open_file(path, project) as file:
            return file.read(4 * LONGEST + 1)
    except safe_open.NotRegular:
        raise ValueError(f"{name}: is not a regular file") from None
    except FileNotFoundError:
        raise ValueError(f"no such file: {name}") from None
    except OSError as error:
        raise ValueError(f"{name}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise ValueError(f"{name}: cannot be read: {error}") from None


def _yaml(text: str, name: str) -> object:
    try:
        root = parse(text)
        return None if root is None else plain(value_of(root)[0])
    except UnreadableError as error:
        place = Chunk(text, 1).place(error.index)
        raise ValueError(f"{name}:{place.line}:{place.column}: is not valid JSON or YAML: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def plain(value: object) -> object:
    """Return a copy of a value as JSON types; raises ValueError if JSON cannot represent it or it is too large."""
    try:
        text = json.dumps(value, allow_nan=False)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"contains a value that JSON cannot represent: {shown(str(error), 200)}") from None
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST:,} characters")
    return json.loads(text)
