"""Families of language models, told by their names: a grader should not judge its own."""

import re

# Names of families as they stand in names of models; of a distilled model both count.
_KNOWN = (
    "claude|codestral|command|deepseek|devstral|ernie|exaone|falcon|gemini|gemma|glm|gpt|granite|"
    "grok|hermes|hunyuan|internlm|jamba|kimi|llama|longcat|mimo|minimax|ministral|mistral|mixtral|"
    "nemotron|nova|olmo|phi|qwen|qwq|seed|smollm|solar|starcoder|step|yi"
)
_FAMILY = re.compile(rf"(?<![a-z])(?:{_KNOWN})(?![a-z])")
_SAME = {
    "codestral": "mistral",
    "devstral": "mistral",
    "ministral": "mistral",
    "mixtral": "mistral",
    "qwq": "qwen",
}
_FIRST = re.compile(r"[a-z]+")


def families(model: str) -> frozenset[str]:
    """Return the families that a model's name tells, empty for an empty name.

    A name that holds no known family is its own, by its first word.
    """
    name = model.lower().rpartition("/")[2] or model.lower()
    found = _FAMILY.findall(name) or _FIRST.findall(name)[:1]
    return frozenset(_SAME.get(family, family) for family in found)
