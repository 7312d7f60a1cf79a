"""The models of an open session: found by name, each made once, closed with the session."""

import anyio.to_thread

from holdfast.options import Options
from holdfast.ports import Closable, EventStore, Model
from holdfast.providers.resolve import find_model


class Models:
    """Finds models by the names that the log has. Those that were given are used as they are, and not closed."""

    def __init__(self, options: Options, store: EventStore) -> None:
        given = (options.model, *options.fallback_models)
        self._given = {model.name: model for model in given if model is not None and not isinstance(model, str)}
        self._made: dict[str, Model] = {}
        self._options = options
        self._store = store

    async def find(self, name: str) -> Model:
        """The model called `name`. Raise `UserError` when there is none."""
        if name in self._given:
            return self._given[name]
        if name not in self._made:
            self._made[name] = await anyio.to_thread.run_sync(find_model, name, self._options.clock)
        return self._made[name]

    async def aclose(self) -> None:
        """Close what was made here."""
        for model in self._made.values():
            if isinstance(model, Closable):
                await model.aclose()
