"""Completion scripts for bash, zsh and fish, made from the parser: what it knows, the shell completes."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

import attrs

PROGRAM = "kleene"
FILES = frozenset({"PATH", "DIR", "FILE", "FILE.py:NAME"})


@attrs.frozen
class Option:
    """``values``: those it takes; ``files``: its value is a file; ``takes``: it has a value at all."""

    names: tuple[str, ...]
    text: str
    values: tuple[str, ...] = ()
    files: bool = False
    takes: bool = False


@attrs.frozen
class Words:
    """A command with what may stand behind it. ``files``: its own argument may be one."""

    name: str
    text: str
    options: tuple[Option, ...]
    values: tuple[str, ...] = ()
    files: bool = True


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for one of ``SHELLS``."""
    return SHELLS[shell](options_of(parser), commands_of(parser))


def options_of(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    """The options that the parser's own help names."""
    return tuple(
        Option(
            tuple(action.option_strings),
            first_clause(action.help or ""),
            tuple(map(str, action.choices or ())),
            action.metavar in FILES,
            action.nargs != 0,
        )
        for action in parser._actions
        if action.option_strings and action.help != argparse.SUPPRESS
    )


def commands_of(parser: argparse.ArgumentParser) -> tuple[Words, ...]:
    [subs] = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    summaries = {a.dest: a.help or "" for a in subs._choices_actions}
    found = []
    for name, sub in subs.choices.items():
        own = [a for a in sub._actions if not a.option_strings]
        values = tuple(str(c) for a in own for c in a.choices or ())
        found.append(Words(name, summaries[name], options_of(sub), values, bool(own) and not values))
    return tuple(found)


def first_clause(text: str) -> str:
    """Help as it fits beside a word.

    >>> first_clause("a DuckDB file (default: in memory)"), first_clause("one statement; @FILE reads a file, - reads stdin")
    ('a DuckDB file', 'one statement')
    """
    return text.replace("%%", "%").partition(" (")[0].partition(";")[0]


def names(options: tuple[Option, ...]) -> list[str]:
    return [name for option in options for name in option.names]


# -- bash


def bash(general: tuple[Option, ...], commands: tuple[Words, ...]) -> str:
    everything = {name: o for c in commands for o in c.options for name in o.names} | {
        n: o for o in general for n in o.names
    }
    cases = "\n".join(
        f"        {name}) words='{' '.join(o.values)}' ;;" for name, o in sorted(everything.items()) if o.values
    )
    free = "|".join(sorted(n for n, o in everything.items() if o.takes and not o.values and not o.files))
    files = "|".join(sorted(n for n, o in everything.items() if o.files))
    of_commands = "\n".join(
        f"        {c.name}) words='{' '.join([*c.values, *names(c.options), *names(general)])}' ;;" for c in commands
    )
    return f"""\
# bash completion for {PROGRAM}: source <({PROGRAM} completion bash)
_{PROGRAM}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} word command= words=
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in {"|".join(c.name for c in commands)}) command=$word; break ;; esac
    done
    case $prev in
{cases}
        {files}) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        {free}) return ;;
    esac
    if [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur")); return
    fi
    case $command in
        '') words='{" ".join([c.name for c in commands] + names(general))}' ;;
{of_commands}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ $cur == -* || -z $command ]] || COMPREPLY+=($(compgen -f -- "$cur"))
}}
complete -o filenames -F _{PROGRAM} {PROGRAM}
"""


# -- zsh


def zsh(general: tuple[Option, ...], commands: tuple[Words, ...]) -> str:
    def specs(options: tuple[Option, ...]) -> Iterator[str]:
        for option in options:
            for name in option.names:
                yield "        " + shlex.quote(f"{name}[{zsh_text(option.text)}]{zsh_value(option)}") + " \\"

    listed = "\n".join(f"        {shlex.quote(f'{c.name}:{c.text}')}" for c in commands)
    of_commands = "\n".join(
        "\n".join(
            [
                f"    {c.name}) _arguments -s \\",
                *specs(c.options),
                *specs(general),
                f"        {shlex.quote(zsh_rest(c))} ;;",
            ]
        )
        for c in commands
    )
    general_specs = "\n".join(specs(general))
    return f"""\
#compdef {PROGRAM}
# zsh completion for {PROGRAM}: source <({PROGRAM} completion zsh), or a file _{PROGRAM} on your fpath
_{PROGRAM}() {{
    local curcontext=$curcontext state line
    local -a commands=(
{listed}
    )
    _arguments -C -s \\
{general_specs}
        '1: :->command' '*:: :->rest' && return
    case $state in
    command) _describe command commands; return ;;
    esac
    case $words[1] in
{of_commands}
    esac
}}
if [[ $funcstack[1] == _{PROGRAM} ]]; then _{PROGRAM} "$@"; else compdef _{PROGRAM} {PROGRAM}; fi
"""


def zsh_text(text: str) -> str:
    return text.replace("[", "(").replace("]", ")").replace(":", ",")


def zsh_value(option: Option) -> str:
    if option.values:
        return f":value:({' '.join(option.values)})"
    return ":file:_files" if option.files else ":value: " if option.takes else ""


def zsh_rest(command: Words) -> str:
    if command.values:
        return f"*:value:({' '.join(command.values)})"
    return "*:file:_files" if command.files else "*: :"


# -- fish


def fish(general: tuple[Option, ...], commands: tuple[Words, ...]) -> str:
    all_names = " ".join(c.name for c in commands)
    lines = [f"# fish completion for {PROGRAM}: {PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish"]
    lines += [fish_option(o, "") for o in general]
    for c in commands:
        seen = f"-n '__fish_seen_subcommand_from {c.name}' "
        lines.append(
            f"complete -c {PROGRAM} -n 'not __fish_seen_subcommand_from {all_names}' -f -a {c.name} -d {shlex.quote(c.text)}"
        )
        lines += [fish_option(o, seen) for o in c.options if o.names != ("-h", "--help")]
        if c.values:
            lines.append(f"complete -c {PROGRAM} {seen}-f -a '{' '.join(c.values)}'")
    return "\n".join(lines) + "\n"


def fish_option(option: Option, condition: str) -> str:
    flags = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
    value = (
        f" -x -a '{' '.join(option.values)}'"
        if option.values
        else " -r -F"
        if option.files
        else " -x"
        if option.takes
        else ""
    )
    return f"complete -c {PROGRAM} {condition}{flags}{value} -d {shlex.quote(option.text)}"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
