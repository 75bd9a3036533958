"""Stands in for the package xllamacpp: a server on loopback, or one of the failures of the real one.

The name of the model's file says which.
"""

import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace


class CommonParams(SimpleNamespace):
    """Takes any parameter, as far as the real class has it."""

    def __init__(self):
        parts = {name: SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch")}
        super().__init__(**parts)


def get_device_info():
    """Return the devices: a processor only."""
    return [{"name": "CPU", "type": "GGML_BACKEND_DEVICE_TYPE_CPU"}]


class Server:
    """Serves one reply to any question."""

    def __init__(self, params):
        name = Path(params.model.path).name
        os.write(1, b"printed by C on standard output\n")
        os.write(2, b"0.00.001.000 I srv          init: loading model\n")
        if name == "corrupt.gguf":
            os.write(2, b"0.00.002.000 E gguf_init: something\n")
            os.write(2, b"0.00.002.100 E llama_model_load: error loading model: tensor 'x' is missing\n")
            raise RuntimeError("Failed to init server, please check the input params.")
        if name == "killed.gguf":
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "crash.gguf":
            os.write(2, b"ggml.c:12: GGML_ASSERT(ok) failed\n")
            os.abort()
        if name == "slow.gguf":
            time.sleep(3600)
        _Handler.params, _Handler.dies = params, name == "dies.gguf"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{self._server.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Print nothing."""

    def do_POST(self):
        """Answer with what was received, if the key is right."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        marker = Path(f"{self.params.model.path}.died")
        if self.dies and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        params = self.params
        told = {"pid": os.getpid(), "n_ctx": params.n_ctx, "threads": params.cpuparams.n_threads}
        told |= {"model": asked["model"], "max": asked["max_completion_tokens"], "alias": sorted(params.model_alias)}
        right = self.headers["authorization"] == f"Bearer {params.api_keys[0]}"
        message = {"role": "assistant", "content": json.dumps(told)}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200 if right else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
