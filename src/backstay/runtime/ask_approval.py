"""Ask the person: performs `PermissionAsked` and `BudgetAsked`."""

from typing import Final

import msgspec

from backstay.logic.budget import dollars
from backstay.logic.decide.call_gates import exact_rule
from backstay.logic.state.calls import OpenCall
from backstay.ports import Answer, Question
from backstay.runtime.barrier import Fault
from backstay.runtime.services import Outcome, Performer, fire
from backstay.vocab import events

THIS_SESSION: Final = "it holds for this session only"
"""How the message of an answer begins that was to be kept for longer and was not."""
_NO_RULE: Final = f"{THIS_SESSION}: none of the rules that were offered was named, and no rule means exactly this call"
_LEFT_OUT: Final = f"{THIS_SESSION}: this session keeps and reads no grants"


class AskApproval(Performer[events.PermissionAsked]):
    """One question to a person."""

    async def run(self) -> Outcome:
        """Ask; without an asker, the answer is no."""
        asker = self._services.asker
        if asker is None:
            return self._finish(events.PermissionAnswered(call=self._intent.call, allowed=False, nobody=True))
        call = next(call for call in self._services.state.progress.calls if call.id == self._intent.call)
        args = msgspec.json.decode(call.args, type=dict[str, object])
        fire(self._services, "Notification", call.id, matcher_value="permission_prompt")
        question = Question(
            session=self._services.session,
            call=call.id,
            tool=call.name,
            args=args,
            reason=self._intent.detail,
            kind=call.reason,
            offers=call.offers,
            exact=self._exact_rule(call),
        )
        answer = await asker(question)
        event = await self._event(call, answer, question.exact)
        return self._finish(event, by="system" if answer.nobody else "user")

    def _exact_rule(self, call: OpenCall) -> str:
        tool = self._services.tools.get(call.name)
        return "" if tool is None else exact_rule(self._services.state.progress, call, tool.spec, self._services.policy)

    async def _event(self, call: OpenCall, answer: Answer, exact: str) -> events.PermissionAnswered:
        """Return the answer as the log has it. Only what was offered can be granted: an answer cannot widen what it was shown."""
        allowed = answer.allowed and not answer.nobody
        rules = tuple(rule for rule in answer.rules if rule in call.offers) if allowed else ()
        grant, message = answer.grant, answer.message
        if allowed and grant in ("project", "person"):
            if exact and not answer.rules and answer.args is None:
                rules = (exact,)
            if not rules:
                message = _NO_RULE
            elif self._services.store_grants is None:
                message = _LEFT_OUT
            else:
                message = await self._services.store_grants(rules, grant) or message
        changed = answer.args is not None and answer.args != msgspec.json.decode(call.args)
        return events.PermissionAnswered(
            call=call.id,
            allowed=allowed,
            grant=grant,
            rules=rules,
            args=msgspec.json.encode(answer.args).decode() if changed and allowed else "",
            nobody=answer.nobody,
            message=message,
        )

    def report_fault(self, fault: Fault) -> Outcome:
        """Refuse the call: the asker broke, and no decision was made."""
        message = f"asking failed: {fault.kind}: {fault.message}"
        return self._finish(
            events.PermissionAnswered(call=self._intent.call, allowed=False, nobody=True, message=message)
        )


BUDGET = "Budget"
"""The name of the tool in a question about money."""


ONE_DOLLAR: Final = 100_000_000


class AskBudget(Performer[events.BudgetAsked]):
    """One question about money. A yes allows as much again as was allowed first."""

    async def run(self) -> Outcome:
        """Ask; without an asker, the session stays paused."""
        asker = self._services.asker
        if asker is None:
            return self._finish(events.BudgetAnswered(allowed=False, nobody=True))
        spent, limit = self._intent.spent, self._intent.limit
        more = limit or ONE_DOLLAR
        reason = f"{dollars(spent)} of {dollars(limit)} are spent. Allow {dollars(more)} more?"
        answer = await asker(
            Question(
                session=self._services.session,
                call=self._id,
                tool=BUDGET,
                args={"spent_usd": spent / 1e8, "limit_usd": limit / 1e8},
                reason=reason,
            )
        )
        if answer.nobody:
            return self._finish(events.BudgetAnswered(allowed=False, nobody=True, message=answer.message))
        raised = max(spent, limit) + more if answer.allowed else None
        event = events.BudgetAnswered(allowed=answer.allowed, limit=raised, message=answer.message)
        return self._finish(event, by="user")

    def report_fault(self, fault: Fault) -> Outcome:
        """Leave the session paused: the asker broke."""
        message = f"asking failed: {fault.kind}: {fault.message}"
        return self._finish(events.BudgetAnswered(allowed=False, nobody=True, message=message))
