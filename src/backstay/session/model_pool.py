"""The models of an open session: found by name, each made once, closed with the session."""

import anyio.to_thread

from backstay.catalog import sessions
from backstay.config.model_finder import Finder
from backstay.ports import Closable, EventStore, Model
from backstay.providers.recorded import PREFIX, RecordedModel, parse_recorded
from backstay.session.options import Options


class Models:
    """Finds models by the names that the log has. Those that were given are used as they are, and not closed."""

    def __init__(self, options: Options, store: EventStore) -> None:
        given = (options.model, *options.fallback_models)
        self._given = {model.name: model for model in given if model is not None and not isinstance(model, str)}
        self._made: dict[str, Model] = {}
        self._make = options.find or Finder(None, options.clock).find
        self._store = store

    async def find(self, name: str) -> Model:
        """Return the model called `name`. Raise `UserError` when there is none."""
        if name in self._given:
            return self._given[name]
        if name not in self._made:
            recorded = name.startswith(PREFIX)
            self._made[name] = await (
                self._find_recorded(name) if recorded else anyio.to_thread.run_sync(self._make, name)
            )
        return self._made[name]

    async def aclose(self) -> None:
        """Close what was made here."""
        for model in self._made.values():
            if isinstance(model, Closable):
                await model.aclose()

    async def _find_recorded(self, name: str) -> Model:
        """Return the replies of a session of the same store, by its id or its name."""
        wanted, start = parse_recorded(name)
        session = (await sessions.find(self._store, wanted)).id
        return RecordedModel((await self._store.read(session)).records, self._store.blob, start, name=name)
