import pytest

from kernelskill.errors import ConfigError
from kernelskill.llm.prices import PriceTable
from kernelskill.llm.spec import read_spec
from kernelskill.records.model import Usage

MILLION = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=500_000)


def table(tmp_path, text):
    file = tmp_path / "prices.toml"
    file.write_text(text)
    return PriceTable(file)


def test_the_users_file_goes_first_and_is_dated(tmp_path):
    prices = table(
        tmp_path, '["anthropic:x"]\ninput_usd = 3\noutput_usd = 15\ncached_usd = 0.3\nas_of = "2026-11-01"\n'
    )
    price = prices.find(read_spec("anthropic:x"))
    assert price.usd(MILLION) == pytest.approx(1.5 + 0.15 + 1.5)
    assert "2026-11-01" in price.source


def test_programs_and_servers_of_ones_own_have_no_price_unless_given(tmp_path):
    assert PriceTable().find(read_spec("command:cat")) is None
    assert PriceTable().find(read_spec("openai-compatible:http://h/v1#m")) is None
    own = table(tmp_path, '["command:cat"]\ninput_usd = 1\noutput_usd = 1\nas_of = "2026-11-01"\n')
    assert own.find(read_spec("command:cat")).usd(MILLION) == pytest.approx(1.1)


def test_the_table_knows_models_and_says_which_table(tmp_path):
    pytest.importorskip("genai_prices", reason="the extra llm is not installed")
    price = PriceTable().find(read_spec("openai:gpt-4o"))
    assert price.usd(MILLION) > 0
    assert price.source.startswith("genai-prices ")
    assert PriceTable().find(read_spec("openai:no-such-model-0")) is None


@pytest.mark.parametrize(
    "text", ["[", '["a:b"]\ninput_usd = -1\noutput_usd = 1\nas_of = "x"\n', '["a:b"]\nx = 1\n']
)
def test_a_wrong_file_is_refused(tmp_path, text):
    with pytest.raises(ConfigError, match="price file"):
        table(tmp_path, text)
    with pytest.raises(ConfigError, match="cannot be read"):
        PriceTable(tmp_path / "none.toml")
