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
        super().__init__(model=SimpleNamespace())


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
        told = {"pid": os.getpid(), "n_ctx": params.n_ctx}
        told |= {"model": asked["model"], "max": asked["max_completion_tokens"], "alias": sorted(params.model_alias)}
        message = {"role": "assistant", "content": json.dumps(told)}
        self._send({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def do_GET(self):
        """Report the context, as `/props` does."""
        self._send({"default_generation_settings": {"n_ctx": self.params.n_ctx or 8192}})

    def _send(self, value):
        right = self.headers["authorization"] == f"Bearer {self.params.api_keys[0]}"
        body = json.dumps(value).encode()
        self.send_response(200 if right else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
