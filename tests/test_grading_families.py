import pytest

from gagar_cli.grading.families import families


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B", {"qwen"}),
        ("qwen2.5-coder", {"qwen"}),
        ("QwQ-32B", {"qwen"}),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", {"deepseek", "qwen"}),
        ("gpt-oss-120b", {"gpt"}),
        ("meta-llama/Llama-3.3-70B", {"llama"}),
        ("mistralai/Devstral-Small", {"mistral"}),
        ("zai-org/GLM-4.6", {"glm"}),
        ("our-own-model", {"our"}),
        ("", set()),
    ],
)
def test_a_name_tells_its_families(name, expected):
    assert families(name) == expected


def test_an_organization_is_no_family():
    assert families("deepseek-ai/Qwen3-Distill") == {"qwen"}
