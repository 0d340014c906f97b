"""``cbid serve``: the web service and its search page."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cbid.commands.options import find_project
from cbid.text import printable

KEY_VARIABLE = "CBID_API_KEY"
_MIB = 2**20


def serve(
    project: Annotated[
        Path | None,
        typer.Argument(
            metavar="PROJECT", help="A project of cbid fit (default: the only one in the current folder)."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but the loopback address needs --api-key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 means any free port.")] = 8000,
    api_key: Annotated[
        str | None, typer.Option(envvar=KEY_VARIABLE, help="Key that clients must send; at least 16 characters.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Do not allow adding or removing images.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Search this Milvus collection, filled by cbid index --to. The service is then read-only.",
        ),
    ] = None,
    max_upload: Annotated[int, typer.Option(min=1, help="Largest request in MiB.")] = 20,
    max_pixels: Annotated[int, typer.Option(min=1, help="Largest image in pixels.")] = 25_000_000,
    decode_seconds: Annotated[float, typer.Option(help="Time limit for decoding an image, in seconds.")] = 1.25,
    decode_memory: Annotated[int, typer.Option(min=1, help="Memory limit for decoding an image, in MiB.")] = 280,
    seconds: Annotated[float, typer.Option(help="Time limit for the work of a request, in seconds.")] = 10.0,
    upload_seconds: Annotated[float, typer.Option(help="Time limit for a request to arrive, in seconds.")] = 20.0,
    rate: Annotated[float, typer.Option(help="Requests per second allowed per address; 0 means no limit.")] = 100.0,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address or network of a proxy whose X-Forwarded headers are used; may be repeated.",
        ),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Host name to accept, such as that of a proxy; may be repeated."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that serve the same address.")] = 1,
    log: Annotated[
        Literal["errors", "text", "json"],
        typer.Option(help="Log on standard error: errors, also every request as text, or all as JSON lines."),
    ] = "errors",
    threads: Annotated[int | None, typer.Option(min=1, help="Search threads (default: one per processor).")] = None,
) -> None:
    """Serve a project: a search page, and a REST interface described at /openapi.json.

    Example: cbid serve photos.cbid --port 8000
    """
    from cbid.project import Project
    from cbid.web import ServiceSettings, create_app, is_loopback, listen, run
    from cbid.web.server import log_to_stderr, run_workers

    local = is_loopback(host)
    if not local and api_key is None:
        raise typer.BadParameter(
            f"host={host!r}: other machines can reach this address; give --api-key or set {KEY_VARIABLE}"
        )
    url_host = f"[{host}]" if ":" in host else host
    settings = ServiceSettings(
        api_key=api_key,
        hosts=_hosts(local, url_host, host_name or []),
        trusted_proxies=tuple(trusted_proxy or ()),
        max_upload=max_upload * _MIB,
        max_pixels=max_pixels,
        decode_seconds=decode_seconds,
        decode_memory=decode_memory * _MIB,
        seconds=seconds,
        upload_seconds=upload_seconds,
        rate=rate,
        burst=max(1, int(5 * rate)),
        threads=threads,
        read_only=read_only,
        store=store,
    )
    folder = find_project(project)
    sock = listen(host, port)
    try:
        if workers > 1:
            Project.open(folder).close()  # if it cannot be opened, one process says why, not each of them
            log_to_stderr(log)
            address = f"http://{url_host}:{sock.getsockname()[1]}"
            typer.echo(f"Serving {printable(folder)} at {address} with {workers} processes (press Ctrl-C to stop)")
            run_workers(folder, settings, sock, workers, log)
            return
        app = create_app(folder, settings)
        address = f"http://{url_host}:{sock.getsockname()[1]}"
        images = len(app.state.served.project)
        typer.echo(f"Serving {printable(folder)} ({images:,} images) at {address} (press Ctrl-C to stop)")
        log_to_stderr(log)
        run(app, sock)
    finally:
        sock.close()


def _hosts(local: bool, url_host: str, names: list[str]) -> tuple[str, ...]:
    """Return the accepted Host headers: any, unless the service is on loopback or has a public name."""
    from cbid.web.settings import LOOPBACK_NAMES

    accepted = [name.lower() for name in names]
    return (*LOOPBACK_NAMES, url_host.lower(), *accepted) if local or accepted else ()
