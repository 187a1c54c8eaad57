"""`gagar export-sft`."""


def export_sft_command() -> None:
    """Say nothing yet."""
