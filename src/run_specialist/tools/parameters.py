"""Parameters of a function: their JSON Schema, and the validation of a model's arguments."""

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

_CONTEXT_ANNOTATIONS = {"Context", "Context|None", "Optional[Context]"}
_PREFIXES = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.POSITIONAL_ONLY: ""}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a function as a model sees them."""

    schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    adapter: TypeAdapter[dict[str, Any]]
    context: str | None
    """Parameter that takes the context; hidden from the model."""

    def checked(self, arguments: Mapping[str, Any], context: Context | None) -> dict[str, Any]:
        """Return the validated arguments for the function, including the context.

        Raises ToolError for invalid arguments.
        """
        try:
            # The function may modify its arguments; the recorded call must not change.
            checked = self.adapter.validate_python(ArgsKwargs((), deepcopy(dict(arguments))))
        except ValidationError as error:
            raise ToolError(f"invalid arguments: {_format_errors(error)}") from error
        if self.context is not None:
            checked[self.context] = context
        return checked


_METHOD_CACHE: WeakKeyDictionary[Callable[..., Any], Parameters] = WeakKeyDictionary()
"""Parameters of methods by their function: each run binds the built-in tools' methods to new objects."""


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return the parameters of a function; those of a method are cached for all objects of its class.

    Raises UsageError, with the names of the function and the parameter, if a model cannot call it.
    """
    if not inspect.ismethod(function):
        return _inspect(function)
    if function.__func__ not in _METHOD_CACHE:
        _METHOD_CACHE[function.__func__] = _inspect(function)
    return _METHOD_CACHE[function.__func__]


def _inspect(function: Callable[..., Any]) -> Parameters:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise UsageError(f"{name_of(function)}: cannot read its signature; wrap it in a Python function") from None
    accepted: list[inspect.Parameter] = []
    hints: dict[str, Any] = {}
    context: str | None = None
    for parameter in _unbound(function, signature):
        if _takes_context(function, parameter):
            if context is not None:
                raise UsageError(f"{name_of(function)}: both {context} and {parameter.name} are a Context; keep one")
            context = parameter.name
        else:
            hints[parameter.name] = _type_hint(function, parameter)
            accepted.append(parameter)
    adapter, schema = _build_adapter(function, signature.replace(parameters=accepted), hints)
    # Omitted to save tokens: a model that passes unknown arguments gets an error.
    visible = {key: value for key, value in schema.items() if key != "additionalProperties"}
    return Parameters({"type": "object", "properties": {}, **visible}, adapter, context)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the type of a callable object."""
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def _unbound(function: Callable[..., Any], signature: inspect.Signature) -> list[inspect.Parameter]:
    """Return the parameters not yet bound; raises UsageError for those that cannot be passed by name."""
    fixed = function.keywords if isinstance(function, functools.partial) else {}
    unbound = [parameter for parameter in signature.parameters.values() if parameter.name not in fixed]
    for parameter in unbound:
        if parameter.kind in _PREFIXES:
            raise UsageError(
                f"{name_of(function)}: parameter {_PREFIXES[parameter.kind]}{parameter.name} cannot be passed by "
                "keyword, as models do; name each parameter, or bind it with functools.partial"
            )
        if parameter.name == "self" and parameter.annotation is parameter.empty:
            raise UsageError(f"{name_of(function)}: unbound method; create the tool from a bound method")
    return unbound


def _takes_context(function: Callable[..., Any], parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "ctx"
    if isinstance(annotation, str):
        try:
            annotation = _resolve_annotation(function, annotation)
        except Exception:  # noqa: BLE001 - an annotation is an expression, and may raise anything
            # Most likely imported under `TYPE_CHECKING` only.
            return annotation.replace(" ", "").removeprefix("run_specialist.") in _CONTEXT_ANNOTATIONS
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    choices = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return any(isinstance(choice, type) and issubclass(choice, Context) for choice in choices)


def _type_hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:  # noqa: ANN401 - any type
    if parameter.annotation is parameter.empty:
        return Any
    try:
        return _resolve_annotation(function, parameter.annotation)
    except Exception as error:  # noqa: BLE001 - an annotation is an expression, and may raise anything
        raise UsageError(_schema_error(function, parameter.name, error)) from None


def _resolve_annotation(function: Callable[..., Any], annotation: Any) -> Any:  # noqa: ANN401 - an annotation, or its text
    # One at a time, so that an error names the parameter.
    inner = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    names = getattr(inner, "__globals__", None) or getattr(type(inner).__call__, "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), names, include_extras=True)["it"]


def _build_adapter(
    function: Callable[..., Any], signature: inspect.Signature, hints: dict[str, Any]
) -> tuple[TypeAdapter[dict[str, Any]], Mapping[str, Any]]:
    # A stub with the same signature returns the validated arguments, and Python calls the real function: a thread
    # abandoned inside pydantic's native code would crash the program.
    def checked(**arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as in the signature
        return arguments

    parameters = [one.replace(annotation=hints[one.name]) for one in signature.parameters.values()]
    checked.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # functions allow it
    checked.__annotations__ = hints
    try:
        return _adapter_and_schema(checked)
    except Exception as error:  # noqa: BLE001 - a type may define its own schema, which may raise anything
        raise UsageError(_schema_error(function, _invalid_parameter(hints), error)) from None


def _adapter_and_schema(it: Any) -> tuple[TypeAdapter[Any], Mapping[str, Any]]:  # noqa: ANN401 - a type, or a function
    adapter: TypeAdapter[Any] = TypeAdapter(it)
    return adapter, adapter.json_schema(schema_generator=_Schema)


def _invalid_parameter(hints: Mapping[str, Any]) -> str:
    """Return the first parameter without a valid schema; empty if each is valid alone."""
    for name, hint in hints.items():
        try:
            _adapter_and_schema(hint)
        except Exception:  # noqa: BLE001 - as above
            return name
    return ""


def _schema_error(function: Callable[..., Any], parameter: str, error: Exception) -> str:
    subject = f"parameter {parameter}" if parameter else "its parameters"
    why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"{name_of(function)}: cannot create a JSON Schema for {subject}: {why}"


def _format_errors(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors())


class _Schema(GenerateJsonSchema):
    """Omits what a model does not need: titles derived from names, and defaults without a JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base class

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - pydantic's signature
        """Return False: titles would cost tokens in every request."""
        return False
