"""How full a session's context is and what it cost, as its log alone tells it."""

import msgspec
from msgspec import Struct

from backstay.config.finding import Finder
from backstay.config.settings import Settings, load_settings
from backstay.logic.context import ContextState, context_state
from backstay.logic.pricing import dollars
from backstay.logic.purse import Purse
from backstay.logic.record import SessionRecord
from backstay.logic.state import State
from backstay.logic.tokens import estimate_schema, estimate_text
from backstay.runtime.clock import SystemClock
from backstay.view.result_object import usd
from backstay.vocab.errors import UserError


class Meter(Struct, frozen=True):
    """The context, and the money."""

    context: ContextState
    purse: Purse

    def in_words(self) -> list[tuple[str, str]]:
        """Titles and words for a person."""
        context, purse = self.context, self.purse
        about = "" if context.exact else "about "
        found = [
            ("context", f"{about}{context.used:,} of {context.max:,} tokens ({context.percentage:g} %)"),
            ("cost", dollars(purse.spent)),
        ]
        if purse.limit is not None:
            paused = ", paused" if purse.paused else ""
            found.append(("budget", f"{dollars(purse.limit)}, {_WHEN_SPENT[purse.on_exceed]} when it is spent{paused}"))
        return found

    def as_json(self) -> dict[str, object]:
        """The same for a program."""
        purse = self.purse
        budget = {"limit_usd": usd(purse.limit), "on_exceed": purse.on_exceed, "paused": purse.paused}
        return {
            "context": msgspec.to_builtins(self.context),
            "cost_usd": usd(purse.spent),
            "cost_microcents": purse.spent,
            "budget": None if purse.limit is None else budget,
        }


def meter_of(state: State, record: SessionRecord) -> Meter:
    """The meter of a session: as it shows itself, with the instructions and the tools that were sent last."""
    progress = state.progress
    facts = Finder(_settings(), SystemClock()).facts(progress.trying.model or progress.model)
    overhead = estimate_text(record.system_prompt) + estimate_schema(msgspec.json.encode(record.tool_schemas))
    used = progress.fill.used(overhead) if progress.fill.messages else 0
    return Meter(context_state(used, facts.window, exact=progress.fill.exact), progress.purse)


_WHEN_SPENT = {"warn": "a warning", "fail": "the turn fails", "pause_for_approval": "the turn pauses"}


def _settings() -> Settings:
    try:
        return load_settings()
    except UserError:  # a look at a session does not need them
        return Settings()
