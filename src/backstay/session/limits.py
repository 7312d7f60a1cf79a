"""Limit a session: the facts of its models, its budget, and the policy that follows from its options."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from backstay.logic.budget import check_priced
from backstay.logic.context_usage import estimate_schema, estimate_text
from backstay.logic.decide.policy import SESSION_TURNS, Policy, compaction_share
from backstay.logic.secrets.redact import redact
from backstay.logic.state.session_state import State
from backstay.logic.stored_content import digest
from backstay.ports import Answer, Asker, Question
from backstay.providers.local.pins import LOCAL, ModelProfile
from backstay.providers.registry import full_name
from backstay.runtime.ask_approval import BUDGET
from backstay.runtime.services import ResolveModel
from backstay.session.options import Options, ResolvedOptions
from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.specs import ModelFacts, ToolSpec


def profile_of(model: str) -> ModelProfile | None:
    """Return the profile that goes with the model called `model`; None when the usual options are right."""
    return LOCAL if model.startswith("local:") else None


def with_model_profile(options: ResolvedOptions, model: str) -> ResolvedOptions:
    """Return `options` as a small model needs them, where nothing else was said."""
    profile = profile_of(model)
    if profile is None:
        return options
    usual = Options()
    return replace(
        options,
        system_prompt=options.system_prompt or profile.system_prompt,
        max_rounds=options.max_rounds or profile.max_rounds,
        idle_timeout_s=profile.idle_timeout_s
        if options.idle_timeout_s == usual.idle_timeout_s
        else options.idle_timeout_s,
    )


def fallback_names(options: ResolvedOptions) -> tuple[str, ...]:
    """Return the names of the models that answer when the first cannot."""
    cwd = Path(options.cwd).absolute()
    return tuple(full_name(each, cwd) if isinstance(each, str) else each.name for each in options.fallback_models)


async def model_facts(options: ResolvedOptions, model: str, state: State, find: ResolveModel) -> dict[str, ModelFacts]:
    """Return what is known of every model that may answer. Raise `UserError` when a fallback is missing or a budget cannot be kept."""
    facts: dict[str, ModelFacts] = {}
    for name in fallback_names(options):
        facts[name] = (await find(name)).facts
    with suppress(UserError):  # a session may be opened and read without its model
        facts[model] = (await find(model)).facts
    limit = state.progress.budget.limit if options.budget_microcents is None else options.budget_microcents
    if limit is not None and not options.allow_unpriced:
        check_priced(facts)
    return facts


def budget_change(options: ResolvedOptions, state: State) -> events.BudgetSet | None:
    """Return the budget that the options ask for; None when it is the one that the session has."""
    budget = state.progress.budget
    if options.budget_microcents is None and options.on_exceed is None:
        return None
    keeps = (
        options.budget_microcents is None and not options.lineage.parent
    )  # a child has what its parent says, or no limit
    limit = budget.limit if keeps else options.budget_microcents
    wanted = events.BudgetSet(limit=limit, on_exceed=options.on_exceed or budget.on_exceed)
    return None if (wanted.limit, wanted.on_exceed) == (budget.limit, budget.on_exceed) else wanted


def make_policy(
    options: ResolvedOptions,
    tools: tuple[ToolSpec, ...],
    instructions: str,
    schemas: bytes,
    facts: Mapping[str, ModelFacts],
) -> Policy:
    """Return the policy of a session."""
    return Policy(
        tools={spec.name: spec for spec in tools},
        rules=tuple(options.rules),
        strictest_mode=options.resolved.strictest_mode,
        bypass_forbidden=options.resolved.bypass_forbidden,
        instructions=digest(instructions.encode()),
        tools_digest=digest(schemas),
        parameters=_parameters(options, facts),
        max_rounds=options.max_rounds,
        max_session_turns=options.max_session_turns or SESSION_TURNS,
        fallbacks=fallback_names(options),
        retries=options.retries,
        facts=dict(facts),
        overhead=estimate_text(instructions) + estimate_schema(schemas),
        auto_compact=compaction_share(options.auto_compact),
        compact_instructions=options.compact_instructions,
        max_messages=options.max_messages,
        allow_unpriced=options.allow_unpriced,
    )


def _parameters(options: ResolvedOptions, facts: Mapping[str, ModelFacts]) -> dict[str, object]:
    """Return what shapes every answer. Native search is switched on where a model has it; its adapter leaves it out for the others."""
    extra = options.parameters.get("extra")
    if redact(extra) != extra:
        raise UserError(
            "Something in parameters['extra'] looks like a secret, and parameters are written into the log. "
            "Give it as a header of a provider's profile in the settings."
        )
    searches = options.web_search and any("web_search" in each.abilities for each in facts.values())
    return {**({"web_search": True} if searches else {}), **options.parameters}


def without_budget_questions(asker: Asker) -> Asker:
    """Return `asker` without questions about the budget: a child session waits until its parent asks."""

    async def ask(question: Question) -> Answer:
        return Answer(allowed=False, nobody=True) if question.tool == BUDGET else await asker(question)

    return ask
