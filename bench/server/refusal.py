"""Why a request is not answered."""


class Refused(Exception):
    """A request breaks a rule of the API."""

    def __init__(self, reason: str, status: int = 400, code: str | None = None) -> None:
        """Say what is wrong, and how the API would say it.

        status: of HTTP.
        code: machine-readable, in the error's details.
        """
        super().__init__(reason)
        self.status = status
        self.code = code

    def body(self) -> dict[str, object]:
        """Return the error as the API words it."""
        kind = "not_found_error" if self.status == 404 else "invalid_request_error"  # noqa: PLR2004 - HTTP
        error: dict[str, object] = {"type": kind, "message": str(self)}
        if self.code:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error}
