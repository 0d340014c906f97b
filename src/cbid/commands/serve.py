"""``cbid serve``: the service and its page."""

from pathlib import Path
from typing import Annotated

import typer

from cbid.commands.options import find_project

__all__ = ["serve"]

KEY_VARIABLE = "CBID_API_KEY"
_MIB = 2**20


def serve(
    project: Annotated[
        Path | None,
        typer.Argument(show_default=False, help="A project of cbid fit; by default the one in this folder."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; beyond loopback a key is required.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(envvar=KEY_VARIABLE, show_default=False, help="Asked of every client; 16 characters or more."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Images can neither be added nor removed.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            metavar="ADDRESS",
            help="Search this Milvus collection, which cbid index --to has filled; then read-only.",
        ),
    ] = None,
    max_upload: Annotated[int, typer.Option(min=1, help="MiB of one request.")] = 20,
    max_pixels: Annotated[int, typer.Option(min=1, help="Pixels of one image.")] = 25_000_000,
    seconds: Annotated[float, typer.Option(help="That the work of one request may take.")] = 10.0,
    upload_seconds: Annotated[float, typer.Option(help="In which a request must have arrived.")] = 20.0,
    rate: Annotated[float, typer.Option(help="Requests a second from one address; 0 sets no limit.")] = 100.0,
    threads: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Threads that search; one for each processor.")
    ] = None,
) -> None:
    """Serve a project: a page to search it with, and a REST interface (see /openapi.json).

    Example: cbid serve photos.cbid --port 8000
    """
    from cbid.web import Settings, create_app, is_loopback, listen, run
    from cbid.web.settings import LOOPBACK_NAMES

    alone = is_loopback(host)
    if not alone and api_key is None:
        raise typer.BadParameter(
            f"host={host!r} can be reached from other machines; give --api-key, or set {KEY_VARIABLE}"
        )
    shown = f"[{host}]" if ":" in host else host
    settings = Settings(
        api_key=api_key,
        hosts=(*LOOPBACK_NAMES, shown.lower()) if alone else (),
        max_upload=max_upload * _MIB,
        max_pixels=max_pixels,
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
        app = create_app(folder, settings)
        address = f"http://{shown}:{sock.getsockname()[1]}"
        images = len(app.state.library.project)
        typer.echo(f"Serving {folder} ({images:,} images) at {address} (Ctrl-C ends)")
        run(app, sock)
    finally:
        sock.close()
