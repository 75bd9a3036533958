"""What a function takes: the schema that a model is shown, and the check of the arguments that it gives."""

import functools
import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ArgsKwargs

from run_specialist.errors import ToolError, UsageError
from run_specialist.tools.context import Context

_CONTEXT_WORDS = {"Context", "Context|None", "Optional[Context]"}
_BY_PLACE = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.POSITIONAL_ONLY: ""}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function, seen from a model."""

    schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    adapter: TypeAdapter[dict[str, Any]]
    context: str | None
    """The parameter that takes the context; no model sees it."""

    def checked(self, arguments: Mapping[str, Any], context: Context | None) -> dict[str, Any]:
        """Return the arguments as the function takes them, the context among them.

        Raises ToolError for those that do not fit.
        """
        try:
            # What the model said is history, whatever the function does with it.
            checked = self.adapter.validate_python(ArgsKwargs((), deepcopy(dict(arguments))))
        except ValidationError as error:
            raise ToolError(f"invalid arguments: {_reasons(error)}") from error
        if self.context is not None:
            checked[self.context] = context
        return checked


_METHODS: WeakKeyDictionary[Callable[..., Any], Parameters] = WeakKeyDictionary()
"""What methods take, by the function in their class: the tools of a run are methods, and each run has its own."""


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return what a function takes; that of a method is found out once for all objects of its class.

    Raises UsageError, with the names of the function and the parameter, where no model could call it.
    """
    if not inspect.ismethod(function):
        return _found(function)
    if function.__func__ not in _METHODS:
        _METHODS[function.__func__] = _found(function)
    return _METHODS[function.__func__]


def _found(function: Callable[..., Any]) -> Parameters:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise UsageError(f"{name_of(function)}: its parameters cannot be read; wrap it in one of Python") from None
    kept: list[inspect.Parameter] = []
    hints: dict[str, Any] = {}
    context: str | None = None
    for parameter in _free(function, signature):
        if _takes_context(function, parameter):
            if context is not None:
                raise UsageError(f"{name_of(function)}: both {context} and {parameter.name} are a Context; keep one")
            context = parameter.name
        else:
            hints[parameter.name] = _hint(function, parameter)
            kept.append(parameter)
    adapter, schema = _checker(function, signature.replace(parameters=kept), hints)
    # That further arguments are refused, a model learns when it gives some.
    shown = {key: value for key, value in schema.items() if key != "additionalProperties"}
    return Parameters({"type": "object", "properties": {}, **shown}, adapter, context)


def name_of(function: Callable[..., Any]) -> str:
    """Return what a function is called, as far as it has a name."""
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def _free(function: Callable[..., Any], signature: inspect.Signature) -> list[inspect.Parameter]:
    """Return the parameters that are still open; raises UsageError for those that no name reaches."""
    fixed = function.keywords if isinstance(function, functools.partial) else {}
    free = [parameter for parameter in signature.parameters.values() if parameter.name not in fixed]
    for parameter in free:
        if parameter.kind in _BY_PLACE:
            raise UsageError(
                f"{name_of(function)}: the parameter {_BY_PLACE[parameter.kind]}{parameter.name} cannot be given by "
                "name, and a model gives nothing else; name each parameter, or bind it with functools.partial"
            )
        if parameter.name == "self" and parameter.annotation is parameter.empty:
            raise UsageError(f"{name_of(function)}: is the method of no object yet; make the tool of a bound one")
    return free


def _takes_context(function: Callable[..., Any], parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "ctx"
    if isinstance(annotation, str):
        try:
            annotation = _evaluated(function, annotation)
        except Exception:  # noqa: BLE001 - an annotation is an expression, and may raise anything
            # Imported for type checkers alone, most likely.
            return annotation.replace(" ", "").removeprefix("run_specialist.") in _CONTEXT_WORDS
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    choices = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return any(isinstance(choice, type) and issubclass(choice, Context) for choice in choices)


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:  # noqa: ANN401 - any type
    if parameter.annotation is parameter.empty:
        return Any
    try:
        return _evaluated(function, parameter.annotation)
    except Exception as error:  # noqa: BLE001 - an annotation is an expression, and may raise anything
        raise UsageError(_no_schema(function, parameter.name, error)) from None


def _evaluated(function: Callable[..., Any], annotation: Any) -> Any:  # noqa: ANN401 - an annotation, or its text
    # One by one: all of a function at once would not tell which of them is at fault.
    inner = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    names = getattr(inner, "__globals__", None) or getattr(type(inner).__call__, "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), names, include_extras=True)["it"]


def _checker(
    function: Callable[..., Any], signature: inspect.Signature, hints: dict[str, Any]
) -> tuple[TypeAdapter[dict[str, Any]], Mapping[str, Any]]:
    # It has the signature and only hands the checked arguments back: the function itself is then called from Python,
    # because a thread that is given up inside of pydantic's native code takes the program down with it.
    def checked(**arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as in the signature
        return arguments

    parameters = [one.replace(annotation=hints[one.name]) for one in signature.parameters.values()]
    checked.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # functions have one
    checked.__annotations__ = hints
    try:
        return _described(checked)
    except Exception as error:  # noqa: BLE001 - a type may bring a schema of its own, which may raise anything
        raise UsageError(_no_schema(function, _at_fault(hints), error)) from None


def _described(it: Any) -> tuple[TypeAdapter[Any], Mapping[str, Any]]:  # noqa: ANN401 - a type, or a function
    adapter: TypeAdapter[Any] = TypeAdapter(it)
    return adapter, adapter.json_schema(schema_generator=_Schema)


def _at_fault(hints: Mapping[str, Any]) -> str:
    """Return the parameter of which no schema can be made; empty where each alone is fine."""
    for name, hint in hints.items():
        try:
            _described(hint)
        except Exception:  # noqa: BLE001 - as above
            return name
    return ""


def _no_schema(function: Callable[..., Any], parameter: str, error: Exception) -> str:
    what = f"the parameter {parameter}" if parameter else "its parameters"
    why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"{name_of(function)}: no JSON Schema can be made of {what}: {why}"


def _reasons(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors())


class _Schema(GenerateJsonSchema):
    """Leaves out what a model has no use for: titles made of names, and a default that JSON has no word for."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as its base has it

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - pydantic's own
        """Say no: each title would be paid for in every request."""
        return False
