"""Names of fields that are data, such as paths: they lose secrets as the texts beside them do."""

from collections.abc import Callable


def changed_names(value: object, change: Callable[[str], str]) -> object:
    """JSON-like data with every name of a field changed, in any depth."""
    if isinstance(value, dict):
        return {change(name): changed_names(inner, change) for name, inner in value.items()}
    return [changed_names(each, change) for each in value] if isinstance(value, list) else value
