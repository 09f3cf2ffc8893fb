"""`rocmwatch check-config`: is this configuration good, and what does it say?"""

from __future__ import annotations

import os

import click


@click.command("check-config")
@click.argument("file", required=False)
@click.option("--print", "prints", is_flag=True, help="Show the effective values, defaults included, as YAML.")
@click.option("--schema", is_flag=True, help="Show the JSON Schema of the file instead, for an editor.")
def check_config(file: str | None, *, prints: bool, schema: bool) -> None:
    """Check FILE (default: /etc/rocmwatch/rocmwatch.yaml), and conf.d/*.yaml beside it.

    Names every problem with its file and line, and then exits with 78. What only the systemd unit as shipped would
    refuse is a note on standard error, and exits with 0.
    """
    if schema:
        _print_schema()
        return
    from rocmwatch.config import SHIPPED_WATCHDOG_SECONDS, printable, problems_with_watchdog
    from rocmwatch.errors import ConfigError
    from rocmwatch.observe.config_files import DEFAULT_PATH, load

    path = DEFAULT_PATH if file is None else file
    try:
        config = load(path)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        raise SystemExit(os.EX_CONFIG) from None
    for problem in problems_with_watchdog(config, SHIPPED_WATCHDOG_SECONDS):
        click.echo(f"{printable(path)}: the unit as shipped refuses this: {problem}", err=True)
    what = "ok" if os.path.exists(path) else "ok (no such file, so the defaults apply)"
    if not prints:
        click.echo(f"{printable(path)}: {what}")
        return
    import yaml

    click.echo(f"# {printable(path)}: {what}")  # a comment: the whole output can be used as a file
    click.echo(yaml.safe_dump(config.model_dump(by_alias=True), sort_keys=False), nl=False)


def _print_schema() -> None:
    import json

    from rocmwatch.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
