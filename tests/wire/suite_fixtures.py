"""`specialists` for the conformance suite, which asks for tools, prompts and resources with names of its own.

The specialists of the test have these names. Their arguments become a question, the resources become a stored run.
"""

import os
from dataclasses import replace
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server

from run_specialist.cli.manage import main
from run_specialist.mcp_server import server
from run_specialist.mcp_server.server import Service, make_server

RUN = "run-specialist://runs/" + os.environ["STORED_RUN"]
RESOURCES = {"test://static-text": f"{RUN}/report", "test://template/123/data": RUN}
AT_ONCE = {"greet", "test_error_handling", "test_logging_tool", "test_streaming_elicitation"}
"""The tools that must answer at once: without a question they do so by an error."""


async def translated(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a request for a fixture of the suite as one for a specialist or a run."""
    params = dict(ctx.params or {})
    if ctx.method == "resources/read":
        params["uri"] = RESOURCES.get(params["uri"], params["uri"])
    elif ctx.method in {"tools/call", "prompts/get"} and params["name"] not in AT_ONCE:
        words = [f"{name}={value}" for name, value in (params.get("arguments") or {}).items()]
        params["arguments"] = {"query": " ".join(words) or "Do owls eat mice?"}
    return await call_next(replace(ctx, params=params))


def made(service: Service) -> Server[Any]:
    """Make the server of the program, with the translation in front."""
    found = make_server(service)
    found.middleware.append(translated)
    return found


server.make_server = made  # type: ignore[assignment]
main()
