"""Commands about how the session works: mode, model, language, what may run, what it costs."""

from typing import get_args

from backstay.commands.registry import CommandResult, command, usage
from backstay.logic.budget import dollars
from backstay.session.session import SessionCall
from backstay.vocab.errors import UserError
from backstay.vocab.specs import MODES, Mode


@command("mode", hint="[MODE]", subcommands=tuple(MODES))
async def mode(call: SessionCall) -> CommandResult:
    """Show the permission mode, or take another one."""
    session = call.session
    if not call.args:
        return CommandResult(
            message=f"The mode is {session.permission_mode}. The modes are {', '.join(MODES)}.",
            data={"mode": session.permission_mode},
        )
    wanted = call.args.strip()
    if wanted not in get_args(Mode):
        return usage(call, f"[{'|'.join(MODES)}]")
    try:
        await session.set_permission_mode(wanted)  # type: ignore[arg-type]
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    await call.project.refresh("changed")
    return CommandResult(message=f"Calls are judged in the mode {wanted} from now on.", data={"mode": wanted})


@command("model", hint="[MODEL]")
async def model(call: SessionCall) -> CommandResult:
    """Show the model that answers, or let another one answer."""
    wanted = call.args.strip()
    if not wanted:
        return CommandResult(message=f"{call.session.model} answers.", data={"modelId": call.session.model})
    try:
        await call.session.set_model(wanted)
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    return CommandResult(message=f"{wanted} answers from now on.", data={"modelId": wanted})


@command("language", hint="[LANGUAGE]")
async def language(call: SessionCall) -> CommandResult:
    """Show or set the language of the answers, for this session."""
    wanted = call.args.strip()
    if not wanted:
        now = call.project.language
        return CommandResult(
            message=f"The language is {now}." if now else "No language is set.", data={"language": now}
        )
    await call.project.set_language(wanted)
    return CommandResult(message=f"The answers are to be in {wanted}.", data={"language": wanted})


@command("cost", safety="reads")
async def cost(call: SessionCall) -> CommandResult:
    """Show what the session has used and cost."""
    session = call.session
    used = session.usage
    spent = f"{dollars(session.cost)} spent" if session.cost else "no cost is known"
    budget = f" of {dollars(session.budget)}" if session.budget is not None else ""
    about = " (partly estimated)" if used.estimated else ""
    return CommandResult(
        message=f"{used.input:,} tokens in, {used.output:,} out{about}; {spent}{budget}.",
        data={
            "inputTokens": used.input,
            "outputTokens": used.output,
            "costMicrocents": session.cost,
            "budgetMicrocents": session.budget,
        },
    )


@command("usage", safety="reads")
async def tokens(call: SessionCall) -> CommandResult:
    """Show what the newest turn and the whole session have used."""
    snapshot = call.session.usage_snapshot
    whole = await cost.execute(call) if cost.execute else None
    assert whole is not None
    if snapshot is None:
        return whole
    newest = f"Newest turn: {snapshot.input:,} tokens in, {snapshot.output:,} out ({snapshot.kind})."
    return CommandResult(message=f"{newest}\nSession: {whole.message}", data=whole.data)


@command("context", safety="reads")
async def context(call: SessionCall) -> CommandResult:
    """Show how full the context is, and what fills it before anybody speaks."""
    state = call.session.context_state
    parts = [
        f"  {part.name:<22}{part.size:>8,} bytes{'  (cut)' if part.cut else ''}  {', '.join(part.sources)}".rstrip()
        for part in call.project.instructions.parts
    ]
    exact = "" if state.exact else ", estimated"
    head = f"{state.used:,} of {state.max:,} tokens ({state.percentage:.1f} %{exact})"
    return CommandResult(
        message="\n".join((head, "Instructions:", *parts)),
        data={"usedTokens": state.used, "maxTokens": state.max, "usedPercentage": state.percentage},
    )


@command("permissions", hint="[clear]", subcommands=("clear",), safety="reads")
async def permissions(call: SessionCall) -> CommandResult:
    """Show the rules and what was allowed for this session; `clear` asks again for that."""
    session = call.session
    if call.args.strip() == "clear":
        await session.clear_approvals()
        return CommandResult(message="What was allowed for this session is asked again.")
    if call.args.strip():
        return usage(call, "[clear]")
    lines = [f"{rule.decision:<6}{rule}  ({rule.source})" for rule in session.rules]
    ruled = {rule.partition("(")[0] for rule in session.approved_rules}
    alone = [f"{tool}, as it was seen" for tool in session.approved_tools if tool not in ruled]
    granted = "; ".join((*session.approved_rules, *alone)) or "nothing"
    return CommandResult(
        message="\n".join((f"Mode {session.permission_mode}.", *lines, f"Allowed for this session: {granted}.")),
        data={
            "mode": session.permission_mode,
            "rules": [{"decision": rule.decision, "rule": str(rule), "source": rule.source} for rule in session.rules],
            "approvedTools": list(session.approved_tools),
            "approvedRules": list(session.approved_rules),
        },
    )


COMMANDS = (mode, model, language, cost, tokens, context, permissions)
