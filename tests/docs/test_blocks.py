"""What becomes of a block of code."""

from cotenant_e2e.documentation import blocks

PAGE = """# Page

<!-- run: tests/a.py -->
```console
$ first --flag \\
    value
HEAD   OF TABLE
...
$ second
```

- in a list
  <!-- not run: needs a GPU -->
  ```sh
  third
  ```

```yaml
key: value
```
"""


def found() -> list[blocks.Block]:
    return list(blocks.blocks(PAGE, page="page.md"))


def test_the_line_above_says_what_becomes_of_a_block() -> None:
    assert [(one.test, one.reason) for one in found()] == [("tests/a.py", ""), ("", "needs a GPU"), ("", "")]


def test_blocks_know_their_line_and_lose_their_indentation() -> None:
    assert [(one.line, one.language) for one in found()] == [(4, "console"), (14, "sh"), (18, "yaml")]
    assert found()[1].text == "third"


def test_a_console_block_is_its_commands_and_what_each_prints() -> None:
    first, second = blocks.steps(found()[0])
    assert first == blocks.Step("first --flag \\\n    value", ("HEAD   OF TABLE",))
    assert second == blocks.Step("second")


def test_runs_of_blanks_do_not_count() -> None:
    step = blocks.Step("x", ("HEAD   OF TABLE", "absent"))
    assert blocks.missing(step, "noise\nHEAD OF  TABLE\n") == ["absent"]
