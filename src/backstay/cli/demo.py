"""`backstay demo`."""

import click


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the folder, to look at it afterwards.")
@click.option("--fast", is_flag=True, help="Without pauses.")
def command(keep: bool, fast: bool) -> int:
    """Watch a session crash in the middle of a turn and finish after the resume; offline, no key."""
    from backstay.demo.show import run

    return run(keep=keep, fast=fast)
