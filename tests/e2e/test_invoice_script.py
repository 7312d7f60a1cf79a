"""The script that the README's example plays."""

from pathlib import Path

from backstay import open_session, tool

SCRIPT = Path(__file__).parents[2] / "examples" / "invoice.yaml"


async def test_the_example_of_the_readme_has_a_script() -> None:
    sent: list[tuple[str, int]] = []

    @tool(effect="once")
    async def send_invoice(customer: str, euros: int) -> str:
        """Send an invoice."""
        sent.append((customer, euros))
        return f"sent {euros} EUR to {customer}"

    async with open_session(model=f"scripted:{SCRIPT}", tools=[send_invoice], store=None) as session:
        assert await session.run("Invoice Ada for 40 euros.") == "Ada has her invoice of 40 euros."
        assert await session.run("And Grace.") == "Grace has hers, too."

    assert sent == [("Ada", 40), ("Grace", 40)]
