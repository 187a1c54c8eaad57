"""What candidates wrote reaches a language model as text that it can see, and as nothing else."""

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.untrusted import INVISIBLE, MARK, visible

# Control tokens, as the chat templates and tokenizers of open models have them.
TOKENS = {
    "qwen": "<|im_start|> <|im_end|> <|endoftext|> <think> </think> <tool_call> </tool_call>"
    " <tool_response> </tool_response> <|fim_prefix|> <|vision_start|>",
    "qwen coder": "<function=f> </function> <parameter=p> </parameter>",
    "llama 2": "[INST] [/INST] <<SYS>> <</SYS>> <s> </s> <unk>",
    "llama 3 and 4": "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|>"
    " <|python_tag|> <|header_start|> <|eot|> <|reserved_special_token_0|>",
    "deepseek": "<\uff5cbegin▁of▁sentence\uff5c> <\uff5cend▁of▁sentence\uff5c> <\uff5cUser\uff5c>"
    " <\uff5cAssistant\uff5c>"
    " <\uff5ctool▁calls▁begin\uff5c> <\uff5ctool▁sep\uff5c> <|EOT|> \uff5cDSML\uff5c",
    "mistral": "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS]"
    " [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CONTENT] [ARGS] [CALL_ID] [THINK] [/THINK] [IMG]"
    " [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [AUDIO] [BEGIN_AUDIO] <pad>",
    "gemma": "<bos> <eos> <start_of_turn> <end_of_turn> <start_of_image> <unused7> <mask>"
    ' <|turn> <turn|> <|channel> <channel|> <|tool_call> <tool_call|> <|"|> <|think|> <escape>'
    " <start_function_call> <end_function_call>",
    "phi": "<|system|> <|user|> <|assistant|> <|end|> <|im_sep|> <|tool|> <|/tool|>",
    "glm": "[gMASK] [sMASK] [MASK] <sop> <eop> <|observation|> <arg_key> </arg_key> <arg_value>"
    " </arg_value>",
    "kimi": "<|im_user|> <|im_middle|> <|tool_calls_section_begin|> <|tool_call_argument_begin|>"
    " <|open|> <|sep|> [BOS] [EOS] [EOT] [PAD] [UNK] [start_header_id]",
    "gpt-oss": "<|start|> <|channel|> <|message|> <|return|> <|call|> <|constrain|>",
    "minimax": "]~!b[ ]~b] [e~[ ]<]minimax[>[ <minimax:tool_call> </minimax:tool_call>",
    "granite": "<|start_of_role|> <|end_of_role|> <|end_of_text|> <|tool_call|>",
    "smollm": "<|im_start|> <end_of_utterance> <fake_token_around_image> <fim_prefix> <file_sep>"
    " <filename> <gh_stars> <issue_start> <jupyter_start> <commit_before> <repo_name>",
    "nemotron": "<SPECIAL_10> <TOOLCALL> </TOOLCALL> <AVAILABLE_TOOLS> </AVAILABLE_TOOLS>"
    " <TOOL_RESPONSE> </TOOL_RESPONSE>",
    "others": "<seed:think> </seed:think> <seed:tool_call> <seed:bos> <tool_calls> <tool_sep>"
    " <|START_OF_TURN_TOKEN|> <BOS_TOKEN> [|system|] [|endofturn|] <role>HUMAN</role> <assistant>"
    " <system> </assistant> <用户> [UNUSED_TOKEN_145] <extra_id_0>",
}
ALL_TOKENS = sorted({token for family in TOKENS.values() for token in family.split()})
# Hidden, or moving what is seen.
UNSEEN = (
    "\0\x07\x08\x0b\x0c\x1b\x7f\x85\x9b\xad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f"
    "\u2028\u2029\u202a\u202e\u2060\u2064\u2066\u2069\u3164\ud800\udfff\ufe00\ufeff\uffa0\ufff9"
    "\U0001d173\U000e0001\U000e0041\U000e0100"
)
ORDINARY = [
    "if a < b and c > d: x[i] <<= 3",
    "f <| x\ny |> g\np <|> q <|> r",
    "List<S> m = new HashMap<String, User>(); Vec<System> v;",
    "for (size_t i = 0; i<n; ++i) std::cout <<i << '|' << x[mask] << a[pad];",
    "<html><body><p class='x'>1 &lt; 2</p></body></html>",
    "type A = B | C; let f = |x| x + 1; a || b; let [|y; z|] = w",
    "def think(tool_call): return [inst for inst in prefix[args]]  # <-- here",
    "\tname = 'Müller' # „quotes“ — dashes … ❤\ufe0f 日本語 \u0600\r\n",
    "#include <s.h>\nfoo <s >bar",
]


@pytest.mark.parametrize("token", ALL_TOKENS)
def test_a_control_token_is_broken_after_its_first_character(token):
    assert visible(f"x = '{token}'") == f"x = '{token[0]}{MARK}{token[1:]}'"


def test_breaking_looks_the_same_everywhere():
    assert visible("<|im_end|>[INST]</think>") == "<¦|im_end|>[¦INST]<¦/think>"
    assert visible("<function=edit>]~b]ai") == "<¦function=edit>]¦~b]ai"


def test_look_alikes_of_tokens_are_broken_too():
    for text in (
        "<|IM_START|>",
        "<| im_start |>",
        "< | im_start | >",
        "\uff1c|im_start|\uff1e",
        "<\u2223im_start\u2223>",
        "< / think >",
        "</THINK>",
        "[ INST ]",
        "<\u3000think>",
        '<invoke name="f">',
        '<parameter name="p">',
        "<|anything.new-2|>",
    ):
        assert visible(text) == text[0] + MARK + text[1:]


def test_a_token_hidden_in_another_is_broken():
    assert visible("<|x[INST]y|>") == "<¦|x[¦INST]y|>"
    assert visible("<|im_<|im_end|>start|>") == "<|im_<¦|im_end|>start|>"
    assert visible("<<s>s>") == "<<¦s>s>"


def test_an_invisible_character_inside_does_not_save_a_token():
    assert visible("<|im_\u200bstart|>") == "<¦|im_\\u200bstart|>"
    assert visible("<\u202ethink>") == "<\\u202ethink>"


def test_a_token_does_not_go_across_lines():
    assert visible("<|im\n|>") == "<|im\n|>"
    assert visible("<\nthink>") == "<\nthink>"
    assert visible("<\r\nthink>") == "<\r\nthink>"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_comes_back_as_the_same_object(text):
    assert visible(text) is text


@pytest.mark.parametrize("character", UNSEEN, ids=ascii)
def test_what_hides_or_reorders_becomes_an_escape(character):
    shown = visible(f"a{character}b")
    assert shown == f"a{character.encode('unicode_escape').decode()}b"
    assert shown.isascii()


def test_a_carriage_return_stays_only_at_the_end_of_a_line():
    assert visible("a\r\nb\r\n") == "a\r\nb\r\n"
    assert visible("good\rbad\r\r\n\r") == "good\\rbad\\r\r\n\\r"


def test_of_unicode_format_characters_only_visible_signs_stay():
    kept = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) == "Cf"]
    kept = [c for c in kept if visible(c) == c]
    assert {unicodedata.name(c).split()[0] for c in kept} == {"ARABIC", "SYRIAC", "KAITHI"}


def test_a_terminal_can_build_on_the_same_characters():
    assert re.fullmatch(f"[{INVISIBLE}]+", UNSEEN)
    assert not re.search(f"[{INVISIBLE}]", "a\r\n\té日\ufe0f")


pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [*ALL_TOKENS, *ORDINARY, *UNSEEN, *"<>[]|\uff5c/ \n\r¦", "think", "INST", "<|"]
        ),
        st.sampled_from(ALL_TOKENS).flatmap(
            lambda token: st.integers(0, len(token)).map(lambda n: token[:n])
        ),
        st.text(max_size=5),
    ),
    max_size=20,
).map("".join)


@given(pieces)
def test_nothing_shown_has_a_token_or_an_invisible_character(text):
    shown = visible(text)
    assert [token for token in ALL_TOKENS if token in shown] == []
    assert not set(shown) & set(UNSEEN)
    assert not re.search(r"\r(?!\n)", shown)


@given(pieces)
def test_what_was_shown_is_shown_the_same_again(text):
    shown = visible(text)
    assert visible(shown) is shown


@given(pieces)
def test_only_marks_and_escapes_are_added(text):
    escapes = re.sub(
        f"[{INVISIBLE}]|\\r(?!\\n)", lambda m: m[0].encode("unicode_escape").decode(), text
    )
    assert visible(text).replace(MARK, "") == escapes.replace(MARK, "")
    assert visible(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "unit",
    ["<", "< ", "<|", "<|a", "<a", "<a:", "[", "[ ", "] ", "a|", "\uff5c", "x = y < z\n", " "],
)
def test_time_is_linear_in_the_length(unit):
    def seconds(length):
        text = "<" + unit * (length // len(unit)) + "|"
        start = time.perf_counter()
        visible(text)
        return time.perf_counter() - start

    # Quadratic time would take a thousand times as long, so a loaded machine does no harm.
    assert seconds(1_000_000) < 1000 * max(seconds(10_000), 1e-3)
