#!/usr/bin/env bash
# Plants one fault at a time in a copy of `links/protocol.rs` or `routing/ties.rs` and searches: each must be found.
# Usage: tests/exhaustive/mutants.sh [--list] [word]    (only mutants whose name contains the word; all take minutes)
# `--list` only reports mutants that no longer match the code.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# One act less than the scenarios have, as in CI: this finds all mutants, in a tenth of the time.
export RUST_BACKTRACE=0 POSTROOM_EXHAUSTIVE_MORE=${POSTROOM_EXHAUSTIVE_MORE:--1}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/tests/exhaustive/target}/mutants
mkdir -p "$copy/tests/exhaustive" "$copy/runtime/src/links" "$copy/runtime/src/routing"
cp -r "$root"/tests/exhaustive/{Cargo.toml,Cargo.lock,src} "$copy/tests/exhaustive"
file=runtime/src/links/protocol.rs
missed=0

# mutant NAME SED-EXPRESSION
mutant() {
    [[ $1 == *${word:-}* ]] || return 0
    cp "$root/runtime/src/links/protocol.rs" "$copy/runtime/src/links"
    cp "$root/runtime/src/routing/ties.rs" "$copy/runtime/src/routing"
    sed -E "$2" "$root/$file" >"$copy/$file"
    if cmp -s "$root/$file" "$copy/$file"; then
        echo "STALE   $1: ${file##*/} no longer has that line"; missed=1
    elif ((only_list)); then
        :
    elif ! (cd "$copy/tests/exhaustive" && cargo test -q --no-run) >"$copy/log" 2>&1; then
        echo "BROKEN  $1: does not compile"; missed=1
    else
        local found
        found=$(cd "$copy/tests/exhaustive" && timeout 600 cargo test -q -- --skip fault_ 2>&1 |
            sed -nE 's/^Unexpected (".*") counterexample.*$/\1/p' | sort -u | tr '\n' ' ')
        if [[ $found ]]; then echo "caught  $1: $found"; else echo "MISSED  $1"; missed=1; fi
    fi
}

only_list=0
if [[ ${1:-} == --list ]]; then only_list=1; shift; fi
word=${1:-}

mutant unlink-number-is-ignored \
    's/is_some_and\(\|unlinking\| unlinking\.number == \*number\)/is_some_and(|_| *number > 0)/'
mutant unlink-is-not-answered \
    's/LinkEffect::Answer\(LinkMessage::Unlinked\(\*number\)\)/{ let _ = number; LinkEffect::Nothing }/'
mutant unlink-forgets-at-once \
    's/self\.unlinking\.insert\(other, Unlinking \{ number, again: None \}\);//'
mutant unlinking-process-accepts-links \
    's/is_none_or\(\|unlinking\| unlinking\.again == Some\(by\)\)/is_none_or(|_| true)/'
mutant unlinked-ends-a-new-link \
    's/^( *)self\.unlinking\.remove\(\&from\);/\1self.unlinking.remove(\&from); self.links.remove(\&(from, by));/'
mutant crossing-unlinks-count-once \
    '/If both processes unlink at once/,/^ *\}$/ s/self\.links\.remove\(\&\(from, by\)\);/self.links.remove(\&(from, by));'\
' self.unlinking.remove(\&from);/'
mutant linking-again-sends-nothing \
    's/^        Some\(LinkMessage::Link\)$/        (!self.unlinking.contains_key(\&other)).then_some(LinkMessage::Link)/'
mutant dead-do-not-answer-links \
    's/LinkMessage::Link => Some\(LinkMessage::Exit\(Why::gone\(\)\)\)/LinkMessage::Link => None/'
mutant dead-do-not-answer-unlinks \
    's/LinkMessage::Unlink\(number\) => Some\(LinkMessage::Unlinked\(\*number\)\)/LinkMessage::Unlink(_) => None/'
mutant dead-do-not-answer-monitors \
    's/LinkMessage::Watch\(number\) => Some\(LinkMessage::Down\(\*number, Why::gone\(\)\)\)/LinkMessage::Watch(_) => None/'
mutant down-is-not-checked \
    's/LinkMessage::Down\(number, why\) if .* => \{/LinkMessage::Down(number, why) => {/; s/^'\
' *LinkMessage::Down\(\.\.\) => LinkEffect::Nothing,//'
mutant down-is-not-forgotten \
    's/^ *self\.watched\.remove\(number\);//'
mutant exit-does-not-withdraw-monitors \
    's/chain\(unwatched\)\.//; s/let unwatched = .*$/let _ = \&self.watched;/'
mutant demonitor-is-ignored \
    's/self\.watchers\.remove\(\&\(from, \*number\)\);/let _ = number;/'
mutant normal-exit-sends-no-notice \
    's/\.chain\(\[\(other, LinkMessage::Exit\(why\.clone\(\)\)\)\]\)/.chain((!why.is_quiet()).then(|| (other,'\
' LinkMessage::Exit(why.clone()))))/'
mutant normal-exit-is-delivered \
    's/true if why\.is_quiet\(\) => LinkEffect::Nothing,//'
mutant normal-exit-is-sent-as-failure \
    's/\(\!why\.is_quiet\(\)\)\.then\(/true.then(/'
mutant failure-ends-trapping-processes \
    's/true if \!self\.traps => LinkEffect::End/true => LinkEffect::End/;'\
' s/^ *_ => LinkEffect::Nothing,$/ false => LinkEffect::Nothing,/'
mutant exit-ends-trapping-processes \
    's/true if self\.traps => LinkEffect::Exit\(why\.clone\(\)\),//'
mutant exit-of-an-unlinked-process-is-delivered \
    's/false => LinkEffect::Nothing,/false if self.traps =>'\
' LinkEffect::Exit(why.clone()), false => LinkEffect::Nothing,/'
mutant exit-does-not-end-the-link \
    's/match self\.links\.remove\(\&\(from, by\)\) \{/match self.links.contains(\&(from, by)) {/'
mutant downs-are-not-sent \
    's/exits\.chain\(downs\)/exits/; s/let downs = .*$//'
mutant owned-does-not-notify-its-owner \
    's/\.chain\(disowned\)//; s/let disowned = .*$/let _ = \&self.owner;/'
mutant owned-outlives-its-owner \
    's/\(self\.owned, messages\)/(BTreeSet::new(), messages)/'

# Across nodes.
mutant unlink-of-another-connection-counts \
    '/If both processes unlink at once/,/^ *\}$/ s/self\.links\.remove\(\&\(from, by\)\);/self.links.retain(|(who, _)| *who'\
' != from);/'
file=runtime/src/routing/ties.rs
mutant link-is-not-noted-when-it-is-sent \
    's/^( *)self\.links\.insert\(\(from, to\)\);/\1let _ = \&self.links;/'
mutant link-is-not-noted-when-it-arrives \
    's/^( *)self\.links\.insert\(link\);/\1let _ = link;/'
mutant watch-is-not-noted-when-it-is-sent \
    's/LinkMessage::Watch\(number\) => _ = self\.watched\.insert\(\(from, \*number\), to\),/LinkMessage::Watch(_)'\
' => {}/'
mutant watch-is-not-noted-when-it-arrives \
    's/LinkMessage::Watch\(number\) => _ = self\.watchers\.insert\(\(from, \*number\), to\),/LinkMessage::Watch(_)'\
' => {}/'
mutant unlink-is-not-noted \
    's/^ *self\.unlinking\.insert\(\(from, to\), \(\*number, false\)\);/let _ = number;/'
mutant unlink-of-the-other-leaves-the-number-of-ours \
    's/LinkMessage::Unlink\(_\) => _ = self\.links\.remove\(\&link\),/LinkMessage::Unlink(_) => _ ='\
' self.unlinking.remove(\&link),/'
mutant loss-leaves-links \
    's/messages\.push\(\(other, local, LinkMessage::Exit\(ExitReason::NodeLost\)\)\);//'
mutant loss-leaves-unlinks \
    's/messages\.push\(\(other, local, LinkMessage::Unlinked\(number\)\)\);/let _ = (local, other, number);/'
mutant loss-leaves-monitors \
    's/messages\.push\(\(other, local, LinkMessage::Down\(number, ExitReason::NodeLost\)\)\);/let _ = (local, number,'\
' other);/'
mutant loss-leaves-watchers \
    's/messages\.push\(\(other, local, LinkMessage::Unwatch\(number\)\)\);/let _ = (other, number, local);/'
mutant refused-link-is-not-answered \
    's/LinkMessage::Link => Some\(LinkMessage::Exit\(ExitReason::NodeLost\)\),/LinkMessage::Link => None,/'
mutant refused-monitor-is-not-answered \
    's/LinkMessage::Watch\(number\) => Some\(LinkMessage::Down\(\*number, ExitReason::NodeLost\)\),/LinkMessage::Watch(_)'\
' => None,/'

exit $missed
