"""`backstay models`: what is known of models, and how their answers are read."""

import click

from backstay.cli import models_pull

FORMATS = ("anthropic", "openai-responses", "openai-chat", "google")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("models")
def command() -> None:
    """List models, show what is known of one, and read recorded answers."""


@command.command("list")
@as_json
def list_models(as_json: bool) -> int:
    """List the models of the catalog, and those that run on this machine."""
    from backstay.cli import models_list

    return models_list.list_models(as_json=as_json)


@command.command()
@click.argument("name")
@click.option("--settings", type=click.Path(dir_okay=False), metavar="FILE", help="Settings over the person's own.")
@as_json
def show(name: str, settings: str | None, as_json: bool) -> int:
    """Show what is known of a model, such as anthropic:claude-sonnet-4-6, local: or a profile of the settings."""
    from backstay.cli import models_list

    return models_list.show(name, settings=settings, as_json=as_json)


command.add_command(models_pull.command)


@command.command()
@click.option("--format", "format_name", required=True, type=click.Choice(FORMATS), help="Who wrote the answers.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which random splits to use.")
@click.argument("source", type=click.Choice(["-"]), metavar="-")
def decode(format_name: str, seed: int, source: str) -> int:
    """Read recorded answers, a JSON object a line, from standard input; answer a line each.

    \b
    In:   {"id","status","content_type","body"}   or "chunks": [...] instead of a body
    Out:  {"id","message":{"role","content"},"usage","stop","model","notes"}
          {"id","error":{"kind","message","retry_after_s"?}}

    The bytes of each body are handed over in random pieces, as a network would.
    """
    from backstay.cli import models_decode

    return models_decode.decode_lines(format_name, seed)
