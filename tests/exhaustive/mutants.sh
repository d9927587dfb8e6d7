#!/usr/bin/env bash
# Plants one fault at a time in a copy of `links/protocol.rs` and searches: each must be found.
# Usage: tests/exhaustive/mutants.sh [--list] [word]    (only mutants whose name contains the word; all take minutes)
# `--list` only reports mutants that no longer match the code.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# One act less than the scenarios have, as in CI: this finds all mutants, in a tenth of the time.
export RUST_BACKTRACE=0 POSTROOM_EXHAUSTIVE_MORE=${POSTROOM_EXHAUSTIVE_MORE:--1}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/tests/exhaustive/target}/mutants
mkdir -p "$copy/tests/exhaustive" "$copy/runtime/src/links"
cp -r "$root"/tests/exhaustive/{Cargo.toml,Cargo.lock,src} "$copy/tests/exhaustive"
protocol=runtime/src/links/protocol.rs
missed=0

# mutant NAME SED-EXPRESSION
mutant() {
    [[ $1 == *${word:-}* ]] || return 0
    sed -E "$2" "$root/$protocol" >"$copy/$protocol"
    if cmp -s "$root/$protocol" "$copy/$protocol"; then
        echo "STALE   $1: protocol.rs no longer has that line"; missed=1
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
    's/if self\.links\.get\(\&from\) == Some\(\&LinkState::Unlinking\(\*number\)\)/if'\
' matches!(self.links.get(\&from), Some(LinkState::Unlinking(_)))/'
mutant unlink-is-not-answered \
    's/LinkEffect::Answer\(LinkMessage::Unlinked\(\*number\)\)/{ let _ = number; LinkEffect::Nothing }/'
mutant unlink-forgets-at-once \
    's/self\.links\.insert\(other, LinkState::Unlinking\(number\)\);/self.links.remove(\&other);/'
mutant unlinking-process-accepts-links \
    's/self\.links\.entry\(from\)\.or_insert\(LinkState::Linked\);/self.links.insert(from, LinkState::Linked);/'
mutant unlinked-ends-a-new-link \
    's/if self\.links\.get\(\&from\) == Some\(\&LinkState::Unlinking\(\*number\)\)/if *number > 0/'
mutant crossing-unlinks-count-once \
    '/If both unlink at once/,/^ *\}$/ s/== Some\(\&LinkState::Linked\)/.is_some()/'
mutant linking-again-sends-nothing \
    's/Some\(LinkState::Linked\) => None,/Some(_) => None,/; s/None \| Some\(LinkState::Unlinking\(_\)\) =>/None =>/'
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
    's/Some\(LinkState::Linked\) if why\.is_quiet\(\) => LinkEffect::Nothing,//'
mutant normal-exit-is-sent-as-failure \
    's/\(\!why\.is_quiet\(\)\)\.then\(/true.then(/'
mutant failure-ends-trapping-processes \
    's/Some\(LinkState::Linked\) if !self\.traps => LinkEffect::End/Some(LinkState::Linked) => LinkEffect::End/'
mutant exit-ends-trapping-processes \
    's/Some\(LinkState::Linked\) if self\.traps => LinkEffect::Exit\(why\.clone\(\)\),//'
mutant exit-of-an-unlinked-process-is-delivered \
    's/Some\(LinkState::Unlinking\(_\)\) \| None => LinkEffect::Nothing,/Some(LinkState::Unlinking(_)) if'\
' self.traps => LinkEffect::Exit(why.clone()), Some(LinkState::Unlinking(_)) | None => LinkEffect::Nothing,/'
mutant exit-does-not-end-the-link \
    's/match self\.links\.remove\(\&from\) \{/match self.links.get(\&from).copied() {/'
mutant downs-are-not-sent \
    's/exits\.chain\(downs\)/exits/; s/let downs = .*$//'
mutant owned-does-not-notify-its-owner \
    's/\.chain\(disowned\)//; s/let disowned = .*$/let _ = \&self.owner;/'
mutant owned-outlives-its-owner \
    's/\(self\.owned, messages\)/(BTreeSet::new(), messages)/'

exit $missed
