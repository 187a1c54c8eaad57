r"""Text that candidates wrote, made safe to show to a language model: as data, all of it visible.

Two things are done, both so that a reader sees them, and nothing else is touched.

Control tokens of chat templates are broken by a broken bar after their first character:
`<|im_end|>` becomes `<¦|im_end|>`, `[INST]` becomes `[¦INST]`. No token has that bar in it, Unicode
normalization neither makes nor removes it, code hardly ever has it, and without it the text is what
it was. Tokenizers know exact tokens only, but models follow what looks like one: tags match in any
case, with blanks inside, and with full-width brackets and bars. Words that ordinary code has as
types or indices (`List<User>`, `x[mask]`) match only as a tokenizer has them. So HTML's `<s>` is
broken too, and stays readable; `a < b`, `x <| y`, `p <|> q` and `List<S>` stay as they are.

Characters that show nothing, or move what is shown, become escapes such as `\u202e`: controls other
than line feed and tab, a carriage return that ends no line, line and paragraph separators, lone
surrogates, and all that Unicode calls format or ignorable by default. The Arabic, Syriac and Kaithi
number signs stay, since they are visible, and so do U+FE0E and U+FE0F, which ordinary emoji have
and which only choose between black and colour.

The tokens are those in the chat templates and tokenizers of Qwen, Llama 2 to 4, DeepSeek, Mistral,
Gemma, Phi, GLM, Kimi, gpt-oss, MiniMax, Hermes, Granite, SmolLM, Nemotron, Seed-OSS, Hunyuan,
Command, EXAONE, Ling, Laguna, MiniCPM and StarCoder. Other alphabets' look-alikes of letters are
not looked for: no tokenizer takes them for a token.
"""

import re

MARK = "¦"

# The inside of a character class. A terminal has to escape more: line feed, carriage return, tab.
INVISIBLE = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0"
    r"\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_UNSEEN = re.compile(rf"[{INVISIBLE}]|\r(?!\n)")

# Insides of character classes, the full-width forms and look-alikes included.
_LESS, _GREATER = r"<\uff1c", r">\uff1e"
_BARS = r"|\uff5c\u2223\u2502\u01c0"
_BLANKS = r"[^\S\r\n]*+"
_TAGS = r"""
    think(?:ing)?|tool_?calls?|tool_responses?|tool_results?|tool_sep|available_tools
    |function_calls?|function_response|arg_key|arg_value
    |start_of_turn|end_of_turn|start_of_image|end_of_image|image_soft_token
    |(?:start|end)_function_(?:declaration|call|response)
    |end_of_utterance|fake_token_around_image
    |(?:bos|eos|pad|unk|cls|sep|eop)(?:_token)?|sop|mask_token
    |(?:special|reserved|reserved_token|unused|extra_id)_?\d{1,6}
    |fim_(?:prefix|middle|suffix|pad)|file_sep|repo_?name|gh_stars|empty_output
    |issue_(?:start|comment|closed)|jupyter_[a-z]{4,12}|commit_(?:before|msg|after)
    |role>(?:system|human|user|assistant|observation)</role|用户
"""
_WORDS = r"""
    s|user|system|assistant|image|video|audio|img|mask|tools|function|parameter|invoke
    |filename|escape
"""
_SQUARE = r"""
    /?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS?|TOOL_RESULTS|TOOL_CONTENT|THINK
        |MODEL_SETTINGS)
    |ARGS|CALL_ID|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX
    |[gs]?MASK|BOS|EOS|EOT|PAD|UNK|CLS|SEP|UNUSED_TOKEN_\d{1,6}|extra_id_\d{1,6}
    |start_header_id|end_header_id
"""
# Only the first character is taken and the rest looked at, so that a token inside another is found
# too. No part matches the mark, so what is broken stays so; only blanks repeat without a limit.
_CONTROL = re.compile(
    rf"""
    [{_LESS}\[\]\uff5c]
    (?:
        (?<=[{_LESS}])(?=
            {_BLANKS}/?{_BLANKS}
            (?:
                # <|any|>, and Gemma's <|any> and <any|>
                [{_BARS}]{_BLANKS}[^\s{_LESS}{_GREATER}{_BARS}{MARK}]{{1,80}}+
                    {_BLANKS}[{_BARS}]?{_BLANKS}[{_GREATER}]
                |[\w▁]{{1,80}}+{_BLANKS}[{_BARS}]{_BLANKS}[{_GREATER}]
                |(?i:(?:[a-z]{{1,20}}:)?(?:{_TAGS})){_BLANKS}[{_GREATER}]
                |(?i:(?:function|parameter|invoke)(?:\ name)?\ ?=)
            )
            |/?(?:{_WORDS})>
            |</?SYS>>
        )
        |(?<=\[)(?=
            \ ?(?:{_SQUARE})\ ?\]
            |\|(?:system|user|assistant|tool|endofturn)\|\]
            |e~\[
        )
        |(?<=\])(?=~!?b[\[\]]|<\]minimax\[>\[)
        |(?<=\uff5c)(?=DSML\uff5c)
    )
    """,
    re.VERBOSE,
)


def visible(text: str) -> str:
    """Return text with its control tokens broken up and its invisible characters escaped.

    Text without either comes back as the same object, and so does what this function returned.
    Takes time linear in the length.
    """
    return _CONTROL.sub(rf"\g<0>{MARK}", _UNSEEN.sub(_escaped, text))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
