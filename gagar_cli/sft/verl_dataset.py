"""Data set for verl's SFT trainer: restores what Parquet cannot hold.

`gagar export-sft --profile verl` copies this file beside the data. It needs verl, not gagar:

    data.custom_cls.path=FOLDER/verl_dataset.py data.custom_cls.name=ToolCallDataset

Parquet gives every struct the keys of all, null where absent, and holds arguments as JSON text. The
data set takes the nulls out and parses the text, so that any chat template sees what the grader's
server saw. Without it only templates that take arguments as text, such as Qwen3's, render calls
rightly.

verl renders each message on its own, and stops where that differs from the whole. Templates that
join the results of several calls, as Qwen's do, need data.ignore_input_ids_mismatch=True.
"""

import json
from typing import Any

from verl.utils.dataset.multiturn_sft_dataset import (  # type: ignore[import-not-found]
    MultiTurnSFTDataset,
)

_JSON_TEXT = ("arguments", "parameters")


def restored(value: object, key: str = "") -> Any:  # noqa: ANN401  any JSON value
    """Return a value without nulls, and with arguments and parameters as objects."""
    if isinstance(value, dict):
        return {name: restored(v, name) for name, v in value.items() if v is not None}
    if isinstance(value, list):
        return [restored(entry) for entry in value]
    if key in _JSON_TEXT and isinstance(value, str):
        return json.loads(value)
    return value


class ToolCallDataset(MultiTurnSFTDataset):  # type: ignore[misc]
    """Conversations with tool calls, read as verl does and then restored."""

    messages: Any
    tools: Any

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        self.messages = restored(self.messages)
        self.dataframe[self.messages_key] = self.messages
        if self.tools is not None:
            self.tools = restored(self.tools)
