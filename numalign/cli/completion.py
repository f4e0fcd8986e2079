"""numalign completion, and the answers to the shell: what can stand where the cursor is.

The shell's function asks `_NUMALIGN_COMPLETE=SHELL numalign -- WORDS…`, the last word being the one that is written. An
answer is a line for each completion, for zsh and fish with a tab and what it is; none means the name of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numalign.cli.commands import COMMANDS, Command
from numalign.cli.files import emit
from numalign.cli.help import GROUPS, names_of
from numalign.cli.options import Option
from numalign.cli.parameters import arguments_of, options_of
from numalign.errors import WrongUsage

__all__ = ["answer", "completion"]

_SCRIPTS = {
    "bash": """\
_numalign() {
    local IFS=$'\\n' word=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=($(_NUMALIGN_COMPLETE=bash "$1" -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    # of --option=value bash replaces what is behind the sign alone
    if [[ ${#COMPREPLY[@]} -eq 0 && $word == "=" ]]; then COMPREPLY=($(compgen -f)); fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _numalign numalign
""",
    "zsh": """\
#compdef numalign
_numalign() {
    local -a lines
    lines=("${(@f)$(_NUMALIGN_COMPLETE=zsh ${words[1]} -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    lines=("${(@)lines:#}")
    if (( ${#lines} )); then
        lines=("${(@)lines//:/\\\\:}")
        lines=("${(@)lines//$'\\t'/:}")
        _describe numalign lines
    else
        [[ $words[CURRENT] == --*=* ]] && compset -P '*='
        _files
    fi
}
if [[ $funcstack[1] == _numalign ]]; then _numalign "$@"; else compdef _numalign numalign; fi
""",
    "fish": """\
function __numalign
    set -l words (commandline -opc) (commandline -ct)
    set -l found (_NUMALIGN_COMPLETE=fish $words[1] -- $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        set -l flag (string match -r '^--[^=]*=' -- $words[-1])
        for path in (__fish_complete_path (string replace -r '^--[^=]*=' '' -- $words[-1]))
            echo "$flag$path"
        end
    end
end
complete -c numalign -f -a '(__numalign)'
""",
}
_VALUES: dict[str, str] = {
    # parameter -> where its values are, other than an option's choices; a list separated by commas where it `only` is
    "checks.check": "numalign.checks.pages:ids",
    "completion.shell": "numalign.cli.completion:_SCRIPTS",
    "target": "numalign.render.targets:TARGETS",
    "kubernetes_version": "numalign.kubelet.versions:known_versions",
    "from_version": "numalign.kubelet.versions:known_versions",
    "to_version": "numalign.kubelet.versions:known_versions",
    "option": "numalign.kubelet.versions:option_values",
    "only": "numalign.checks.pages:ids",
    "ignore": "numalign.checks.pages:ids",
}
_LISTS = ("only", "ignore")
"""Options whose values can be joined by commas."""

Completion = tuple[str, str]
"""What can stand there, and what it is."""


def completion(*, shell: str, out: str | None = None) -> int:
    """Print what makes a shell complete commands, options, their values and file names with the tab key.

    bash and zsh read it when they start, or from the directory in which they look for completions; fish from
    ~/.config/fish/completions/numalign.fish.
    """
    if shell not in _SCRIPTS:
        raise WrongUsage(f"there is no completion for {shell}", hint=f"for {', '.join(_SCRIPTS)} there is")
    emit(_SCRIPTS[shell].encode(), out)
    return 0


def answer(shell: str, words: list[str]) -> int:
    """Prints what can stand in the place of the last word, for the shell's function."""
    words = words[1:] if words[:1] == ["--"] else words
    *before, current = _joined(words) or [""]
    behind = current.rpartition("=")[0] + "=" if current.startswith("--") and "=" in current else ""
    lines = []
    for word, about in _sorted(_completions(before, current)):
        described = f"{word}\t{about.partition('. ')[0].removesuffix('.')}" if about else word
        lines.append(word.removeprefix(behind) if shell == "bash" else described)
    emit("".join(f"{line}\n" for line in lines).encode(), None)
    return 0


def _joined(words: list[str]) -> list[str]:
    """The words with `--option = value` put together, which bash takes apart."""
    found: list[str] = []
    for word in words:
        if found and found[-1].startswith("--") and (word == "=" or found[-1].endswith("=")):
            found[-1] += word
        else:
            found.append(word)
    return found


def _sorted(found: Iterable[Completion]) -> list[Completion]:
    return sorted(dict(found).items(), key=lambda pair: pair[0].startswith("-"))


def _completions(before: list[str], current: str) -> Iterator[Completion]:
    command = next((own for own in COMMANDS if tuple(before[: len(own.words)]) == own.words), None)
    if command is None:
        yield from _commands(before, current)
        return
    rows = options_of(command)
    by_flag = {flag: name for name, row in rows.items() for flag in row.flags}
    flag, equals, value = current.partition("=")
    last = before[-1] if len(before) > len(command.words) else ""
    if last in by_flag and rows[by_flag[last]].takes != "flag":
        yield from _values(by_flag[last], rows[by_flag[last]], current)
    elif equals and flag in by_flag:
        yield from ((f"{flag}={each}", about) for each, about in _values(by_flag[flag], rows[by_flag[flag]], value))
    elif current.startswith("-"):
        yield from _flags(rows, {word.partition("=")[0] for word in before}, current)
    else:
        yield from _argument(command, before[len(command.words) :], rows, current)


def _commands(before: list[str], current: str) -> Iterator[Completion]:
    """The words that can follow, with the options of no command."""
    if current.startswith("-") and not before:
        yield from ((flag, "") for flag in ("--help", "--version") if flag.startswith(current))
    for command in COMMANDS:
        if command.words[: len(before)] == tuple(before) and len(command.words) > len(before):
            word = command.words[len(before)]
            if word.startswith(current) and not current.startswith("-"):
                yield word, command.summary if len(command.words) == len(before) + 1 else GROUPS[word]


def _flags(rows: dict[str, Option], given: set[str], current: str) -> Iterator[Completion]:
    """The options that are not given yet, by their long names."""
    for row in rows.values():
        if row.takes == "list" or not given & {*row.flags}:
            yield from ((flag, row.help) for flag in row.flags if flag.startswith(current) and len(flag) > 2)
    if "--help".startswith(current):
        yield "--help", "examples and all options"


def _values(name: str, row: Option, current: str) -> Iterator[Completion]:
    """The values of an option; of a list behind those that are given."""
    values = list(row.choices) or _of_table(name)
    given, comma, begun = current.rpartition(",") if name in _LISTS else ("", "", current)
    if comma and not {*given.split(",")} <= {*values}:
        return
    for value in values:
        if value.startswith(begun) and value not in given.split(","):
            yield f"{given}{comma}{value}", ""


def _argument(command: Command, before: list[str], rows: dict[str, Option], current: str) -> Iterator[Completion]:
    """The values of the argument that is not given yet; where it is a file, none."""
    takes = {flag for row in rows.values() if row.takes != "flag" for flag in row.flags}
    given = sum(not word.startswith("-") and (i == 0 or before[i - 1] not in takes) for i, word in enumerate(before))
    names = arguments_of(command)[given:]
    for value in _of_table(f"{command.words[0]}.{names[0]}") if names else []:
        if value.startswith(current):
            yield value, ""
    if not names and not current:
        yield from _flags(rows, {*before}, "--")


def _of_table(name: str) -> list[str]:
    return names_of(_VALUES[name]) if name in _VALUES else []
