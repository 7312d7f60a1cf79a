"""Make a tool of a function: its docstring is the description, its signature the schema."""

import functools
import inspect
import re
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar, cast, get_args, overload

import anyio
import anyio.from_thread
import anyio.lowlevel
import msgspec

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.tools.signature import Parameters, describe, parameters_of, parameters_of_struct
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Effect, Taint, ToolSpec, Touches

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` beside the event loop and return its result; raise what it raises."""
    crossing = _ThreadResult(work)
    threading.Thread(target=crossing.run, name="backstay tool", daemon=True).start()
    return await crossing.result()


class _ThreadResult(Generic[T]):
    """Carry a result, or the exception instead, from a thread to the task that waits for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._done = anyio.Event()
        self._loop = anyio.lowlevel.current_token()
        self._value: T
        self._error: BaseException | None = None

    def run(self) -> None:
        with self:
            self._value = self._work()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._error = error
        with suppress(RuntimeError):  # the loop has ended, and the call with it
            anyio.from_thread.run_sync(self._done.set, token=self._loop)
        return True

    async def result(self) -> T:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value


P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound=msgspec.Struct)
Check = Callable[..., Awaitable[object]]
"""Finds out whether a call happened: takes the tool's parameters, returns the result, or None when it did not."""

_Checked = tuple[Check, Parameters]

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names of tools that every provider accepts."""


class FunctionTool(Generic[P, R]):
    """A tool made of a function; calling it still calls the function.

    An exception of the function is not caught here. A sync function runs in a worker thread, which cannot be stopped:
    write an async one when an interrupt should end it.
    """

    spec: ToolSpec

    def __init__(
        self, function: Callable[P, R], spec: ToolSpec, parameters: Parameters, check: _Checked | None
    ) -> None:
        functools.update_wrapper(self, function)
        self.spec = spec
        self._function = function
        self._parameters = parameters
        self._check = check

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        """Name the tool."""
        return f"<tool {self.spec.name}>"

    def problem(self, args: dict[str, object]) -> str:
        """Explain why these arguments cannot be used; empty when they can."""
        return self._parameters.problem(args)

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Call the function with `args` and make an output of what it returns."""
        if problem := self.problem(args):
            return ToolOutput(text=problem, failed=True, code="bad_arguments")
        return as_output(await _call(self._function, self._parameters.bind(args, context)))

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Find out whether the call happened. Without a check that is unknown, which counts as not."""
        if self._check is None or self.problem(args):
            return None
        function, parameters = self._check
        value = await _call(function, parameters.bind(args, context))
        return None if value is None else as_output(value)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str = "",
    effect: Effect = "once",
    concurrent: bool | None = None,
    touches: Touches = "host",
    asks: bool = False,
    taints: tuple[Taint, ...] = (),
    check: Check | None = None,
    arguments: type[A] | None = None,
    validate: Callable[[A], str] | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    effect: Effect = "once",
    concurrent: bool | None = None,
    touches: Touches = "host",
    asks: bool = False,
    taints: tuple[Taint, ...] = (),
    check: Check | None = None,
    arguments: type[A] | None = None,
    validate: Callable[[A], str] | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function, async or sync.

    The first paragraph of the docstring is the description; lines of an `Args:` section, or `Annotated[..., "text"]`,
    describe the parameters. A parameter annotated `ToolContext` gets the context and is not shown to the model.

    `effect` says what a second run would mean; `pure` tools may run side by side unless `concurrent` says no;
    `reconcilable` ones need `check`, an async function with the same parameters that returns the result, or None when
    the call did not happen. `asks` wants a person's yes for every call. `taints` says what its calls bring along: words of
    strangers (`untrusted`), private data (`private`), a way out (`outside`); where all three would meet in
    a session, a person is asked.

    With `arguments`, a struct, the function takes all arguments as one parameter of that type: for names that Python does not allow,
    such as `-A`. `validate` then returns what is wrong with arguments that have the right types, or an empty text.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        _refuse_odd(function)
        called = name or function.__name__
        _refuse_contradictions(called, effect, concurrent, touches, check)
        parameters = (
            parameters_of(function) if arguments is None else parameters_of_struct(function, arguments, validate)
        )
        spec = ToolSpec(
            name=called,
            description=describe(function.__doc__ or "")[0],
            schema=parameters.schema,
            effect=effect,
            touches=touches,
            concurrent=effect == "pure" if concurrent is None else concurrent,
            asks=asks,
            taints=taints,
        )
        return FunctionTool(
            function, spec, parameters, check and (check, _parameters_of_check(called, parameters, check))
        )

    return decorate if function is None else decorate(function)


class LateTool:
    """A tool whose specification is known, and which is built with what it needs of its session when it first runs."""

    def __init__(self, known: Tool, build: Callable[[], Tool]) -> None:
        """Show the specification of `known`, an equal tool without a session, and run what `build` returns."""
        self._known = known
        self._build = functools.cache(build)

    @property
    def spec(self) -> ToolSpec:
        """The specification of the tool."""
        return self._known.spec

    def problem(self, args: dict[str, object]) -> str:
        """Explain why these arguments cannot be used; empty when they can."""
        return self._known.problem(args)

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Run the tool."""
        return await self._build().run(args, context)

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Find out whether the call happened."""
        return await self._build().check(args, context)


def as_output(value: object) -> ToolOutput:
    """Make an output of a return value: text as it is, None as an empty text, everything else as JSON."""
    if isinstance(value, ToolOutput):
        return value
    if value is None:
        return ToolOutput()
    if isinstance(value, str) and not isinstance(value, Enum):
        return ToolOutput(text=str(value))
    try:
        return ToolOutput(text=msgspec.json.encode(value).decode())
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        kind = type(value).__qualname__
        text = f"The tool ran, but returned a {kind!r} that is not JSON: {exc}. Return text, lists, dicts or structs."
        return ToolOutput(text=text, failed=True, code="not_json")


async def _call(function: Callable[..., object], bound: inspect.BoundArguments) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(*bound.args, **bound.kwargs)
    value = await in_thread(functools.partial(function, *bound.args, **bound.kwargs))
    return await value if inspect.isawaitable(value) else value


def _refuse_odd(function: object) -> None:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise UserError(f"@tool goes on a function, not on {function!r}. Write a function that calls it.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UserError(
            f"The tool {function.__name__!r} yields. Return one value, and stream output with `context.show`."
        )


def _refuse_contradictions(
    name: str, effect: Effect, concurrent: bool | None, touches: Touches, check: Check | None
) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} cannot be a tool's name. Use 1 to 64 letters, digits, '_' or '-'.")
    for word, value, known in (("effect", effect, get_args(Effect)), ("touches", touches, get_args(Touches))):
        if value not in known:
            raise UserError(f"The tool {name!r} has {word}={value!r}. Use one of {', '.join(map(repr, known))}.")
    if concurrent and effect != "pure":
        raise UserError(
            f"The tool {name!r} has effect={effect!r}, so it runs alone. Only `pure` tools may be concurrent."
        )
    if effect == "reconcilable" and check is None:
        raise UserError(
            f"The tool {name!r} is reconcilable and has no check. Give `check=`, an async function that finds out."
        )
    if effect != "reconcilable" and check is not None:
        raise UserError(f"The tool {name!r} has a check that would never be called. Add `effect='reconcilable'`.")


def _parameters_of_check(name: str, parameters: Parameters, check: Check) -> Parameters:
    if not inspect.iscoroutinefunction(check):
        raise UserError(f"The check of the tool {name!r} must be an async function, not {check!r}.")
    found = parameters_of(check)
    if set(found.names) != set(parameters.names):
        raise UserError(
            f"The check of the tool {name!r} takes {list(found.names)!r}. "
            f"Give it the parameters of the tool: {list(parameters.names)!r}."
        )
    return found


if TYPE_CHECKING:
    _: Tool = cast("FunctionTool[..., object]", None)
    _late: Tool = cast(LateTool, None)
