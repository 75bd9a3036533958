"""Error for requests that the API would reject."""


class Refused(Exception):
    """A request violates a rule of the API."""

    def __init__(self, reason: str, status: int = 400, code: str | None = None) -> None:
        """Set the error message of the API.

        status: HTTP status.
        code: Machine-readable code in the details of the error.
        """
        super().__init__(reason)
        self.status = status
        self.code = code

    def body(self) -> dict[str, object]:
        """Return the error response of the API."""
        kind = "not_found_error" if self.status == 404 else "invalid_request_error"  # noqa: PLR2004 - HTTP
        error: dict[str, object] = {"type": kind, "message": str(self)}
        if self.code:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error}
