#!/usr/bin/env bash
# Plants one fault at a time in a copy of the production modules and runs the models of that protocol: one must fail.
# Usage: tests/models/mutants.sh [--list] [word]    (only mutants whose name contains the word; all take about an hour)
# `--list` only reports mutants that no longer match the code.
# Concurrent runs need a CARGO_TARGET_DIR each.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
export RUST_BACKTRACE=0 POSTROOM_MODELS=full CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/mutants
cp -r "$root"/{Cargo.toml,Cargo.lock,runtime,macros,cluster,console,tests,examples,book} "$copy"
missed=0

# mutant NAME FILE MODELS SED-EXPRESSION
mutant() {
    [[ $1 == *${word:-}* ]] || return 0
    local file=$copy/runtime/src/$2
    cp "$root/runtime/src/$2" "$file"
    sed -i -E "$4" "$file"
    if cmp -s "$root/runtime/src/$2" "$file"; then
        echo "STALE   $1: $2 no longer has that line"; missed=1
    elif ((only_list)); then
        :
    elif ! (cd "$copy" && cargo test -q -p postroom-models --no-run) >"$copy/log" 2>&1; then
        echo "BROKEN  $1: does not compile"; missed=1
    else
        local output status found
        output=$(cd "$copy" &&
            timeout 300 cargo test -q -p postroom-models "models::$3::" -- --skip fault_ 2>&1); status=$?
        found=$(sed -nE 's/^    (models::.*)$/\1/p' <<<"$output" | sort -u | tr '\n' ' ')
        if [[ $found ]]; then echo "caught  $1: $found"
        elif [[ $output == *'(signal: '* ]]; then echo "caught  $1: the models abort"
        elif ((status == 124)); then echo "SLOW    $1: the models do not end"; missed=1
        elif ((status)); then echo "BROKEN  $1: the models do not run"; missed=1
        else echo "MISSED  $1"; missed=1; fi
    fi
    cp -p "$root/runtime/src/$2" "$file"; touch "$file"
}

only_list=0
if [[ ${1:-} == --list ]]; then only_list=1; shift; fi
word=${1:-}
lanes=mailbox/lanes.rs node=mailbox/node.rs slot=slots/slot/mod.rs
sleep=engine/permits/sleep.rs gate=engine/host/gate.rs
token=slots/slot/token.rs generation=slots/slot/generation.rs release=slots/slot/release.rs
send=slots/slot/send.rs control=slots/slot/control.rs requests=slots/slot/requests.rs requesters=slots/slot/requesters.rs
endpoint=slots/link_endpoint.rs message=links/message.rs
members=links/registrations.rs
graph=deadlock/wait_graph.rs call=call/call_id.rs running=engine/workers/running.rs driver=engine/workers/driver_state.rs
help=engine/workers/help.rs
permits=engine/permits/holders.rs handoff=engine/permits/handoff.rs next=time/next_due.rs limits=time/limits.rs names=names/table.rs
transport=routing/transport_queue.rs
ring=recorder/ring.rs magazine=mem/magazine.rs
local=thread_cache/tokens.rs lock=thread_cache/lock.rs cache=thread_cache/cache.rs place=thread_cache/send.rs
evict=thread_cache/evict.rs
permit=slots/slot/words.rs

mutant push-data-relaxed $lanes mailbox \
    's/tail\.swap\(node, PUSH\)/tail.swap(node, Ordering::Relaxed)/'
mutant link-relaxed $lanes mailbox \
    's/(next\.store\(node, Ordering::)Release/\1Relaxed/'
mutant pop-relaxed $lanes mailbox \
    's/(next\.load\(Ordering::)Acquire/\1Relaxed/'
mutant push-control-relaxed $lanes token \
    's/(compare_exchange_weak\(current, new, Ordering::)SeqCst/\1Relaxed/'
mutant push-control-forgets-claim $lanes token \
    's/^        self\.claim\(\)$/        Claim::Nothing/'
mutant push-control-ignores-wait $lanes token \
    's/if marks\(before\) \& WAIT != 0/if false/'
mutant take-control-relaxed $lanes token \
    's/(control\.swap\(ptr::null_mut\(\), Ordering::)AcqRel/\1Relaxed/'
mutant wake-does-not-order $lanes wake \
    's/let seen = self\.control.*$/let seen: Result<*mut MailNode, *mut MailNode> = Ok(current);/'
mutant wake-ignores-wait $lanes wake \
    's/if marks\(before\) \& WAIT != 0/if false/'
mutant parks-without-a-second-check $lanes token \
    's/if self\.control\.load\(Ordering::SeqCst\)\.is_null\(\)/if true/'
mutant park-takes-back-unclaimed $lanes token \
    's/match self\.claim\(\)/match Claim::Process/'
mutant park-stores-the-mark $lanes token \
    's/if self\.tail\.compare_exchange\(head, laid.*is_err\(\)/self.tail.store(laid, Ordering::SeqCst); if false/'
mutant claim-stores-the-tail $lanes token \
    's/self\.tail\.compare_exchange\(tail, bare\(tail\).*is_err\(\)/{ self.tail.store(bare(tail), Ordering::SeqCst);'\
' false }/'
mutant first-node-relaxed $lanes token \
    's/(head\.store\(marked\(node, FRESH\), Ordering::)Release/\1Relaxed/'
mutant first-node-not-fresh $lanes token \
    's/head\.store\(marked\(node, FRESH\)/head.store(node/'
mutant first-node-not-stored $lanes token \
    's/self\.head\.store\(marked\(node, FRESH\), Ordering::Release\);//'
mutant advance-relaxed $lanes token \
    '/fn advance/,/^    \}/ s/(head\.load\(Ordering::)Acquire/\1Relaxed/'
mutant advance-keeps-fresh-mark $lanes token \
    '/fn advance/,/^    \}/ s/head\.store\(first,/head.store(head,/'
mutant park-keeps-the-first-node $lanes token \
    '/unsafe fn lay\(/,/^    \}/ s/self\.head\.store\(ptr::null_mut\(\), Ordering::Relaxed\);//'
mutant park-ignores-a-fresh-node $lanes token \
    '/unsafe fn lay\(/,/let laid/ s/if is_fresh\(head\)/if false/'
mutant park-clears-head-too-late $lanes token \
    '/unsafe fn lay\(/,/^    \}/ { s/self\.head\.store\(ptr::null_mut\(\), Ordering::Relaxed\);//; s/if let'\
' Some\(free\)/self.head.store(ptr::null_mut(), Ordering::Relaxed); if let Some(free)/ }'
mutant park-clears-head-unchecked $lanes token \
    '/unsafe fn lay\(/,/let laid/ s/if !head\.is_null\(\)/if true/'
mutant park-does-not-restore-head $lanes token \
    '/unsafe fn lay\(/,/^    \}/ s/self\.head\.store\(head, Ordering::Release\);//'
mutant park-restores-head-unchecked $lanes token \
    '/tail\.compare_exchange\(head, laid/,/^    \}/ s/if !head\.is_null\(\)/if true/'
mutant park-recycles-too-early $lanes mailbox \
    '/unsafe fn lay\(/,/^    \}/ s/let laid = /if let Some(free) = NonNull::new(head) {'\
' super::node_pool::recycle(unsafe { NodeBox::from_raw(free) }); } let laid = /'
mutant data-is-empty-without-first $lanes slot_reuse \
    '/unsafe fn is_data_empty/,/^    \}/ s/bare\(self\.tail\.load\(Ordering::Relaxed\)\) == head/head.is_null()/'
mutant first-node-not-numbered $lanes token \
    's/unsafe \{ \(\*node\)\.number_first\(\) \};//'
mutant fresh-node-counts-as-seen $lanes token \
    '/fn first_sequence/,/^    \}/ s/sequence\.saturating_sub\(1\)/sequence/'
mutant unknown-number-is-not-first $lanes mailbox \
    's/\{ known \} else \{ first \}/{ known } else { 7 }/'
mutant depth-relaxed $lanes mailbox \
    '/fn depth/,/^    \}/ s/Acquire/Relaxed/'
mutant depth-reads-head-relaxed $lanes mailbox \
    '/fn first_sequence/,/^    \}/ s/Acquire/Relaxed/'
mutant head-stored-relaxed $lanes mailbox \
    '/fn advance/,/^    \}/ s/(head\.store\(.*, Ordering::)Release/\1Relaxed/'
mutant numbers-overflow $node mailbox \
    's/if distance >= LAST_SEQUENCE - BEHIND/if false/'
mutant numbers-do-not-grow $node token \
    's/1 \} else \{ sequence \+ 1 \}/1 } else { sequence }/'

mutant wake-unless-waiting-forgets-claim $lanes suspend \
    '/fn wake_unless_waiting/,/^    \}/ s/Some\(self\.claim_after_control\(current\)\)/Some(Claim::Nothing)/'
mutant wake-unless-waiting-sets-no-wake $lanes suspend \
    '/fn wake_unless_waiting/,/^    \}/ s/marked\(current, WOKEN\)/current/'
mutant wake-unless-waiting-does-not-order $lanes suspend \
    '/fn wake_unless_waiting/,/^    \}/ s/SeqCst, /Relaxed, /'

mutant wait-relaxed $lanes token \
    's/(compare_exchange\(ptr::null_mut\(\), wait, Ordering::)AcqRel/\1Relaxed/'
mutant wait-stores $lanes token \
    's/match self\.control\.compare_exchange\(ptr::null_mut\(\), wait.*$/match Ok::<(),'\
' ()>(self.control.store(wait, Ordering::SeqCst)) {/'

mutant reclaimed-token-is-not-refreshed $release slot_reuse \
    's/ParkResult::Reclaimed\(claim\) => self\.fresh\(claim\)/ParkResult::Reclaimed(_) => Some(self)/'
mutant park-keeps-a-reclaimed-token $release slot_reuse \
    's/self\.0\.settle\(claim\);//'
mutant queue-does-not-vacate $send slot_reuse \
    's/Claim::Vacant => self\.take_back\(pushed\.mine\).*$/Claim::Vacant => Ok(None),/'
mutant control-does-not-vacate $control slot_reuse \
    's/Claim::Vacant => drop\(Token\(self\)\.acquire\(\)\.empty_and_park\(None\)\)/Claim::Vacant => {}/'
mutant refuses-another-senders-message $release slot_reuse \
    's/mine == self\.first\(\)/mine != self.first()/'
mutant keeps-a-second-message $release slot_reuse \
    's/^ *mine = None;//'
mutant incarnation-is-not-closed $generation slot_reuse \
    '/fn close/,/^    \}/ s/Phase::Exiting/Phase::Alive/'
mutant post-does-not-schedule $slot slot_reuse \
    's/owner\.scheduler\.wake\(Token\(self\)\)/let _ = owner/'

mutant announce-without-fence $sleep sleep \
    '/fn announce/,/^    \}/ s/fence\(Ordering::SeqCst\);//'
mutant sleep-without-fence $sleep sleep \
    '/fn begin_sleep/,/^    \}/ s/fence\(Ordering::SeqCst\);//'
mutant stop-searching-not-fenced $sleep sleep \
    '/fn stop_searching/,/^    \}/ s/fence\(Ordering::SeqCst\);//'
mutant wake-sleeper-does-not-record-it $sleep sleep \
    '/fn wake_sleeper\(/,/^    \}/ s/sleepers\.permits\.end_sleep\(thread\);//'
mutant watchdog-rests-unchecked $sleep sleep \
    's/let rests = sleepers\.list\.len\(\) == self\.permits;/let rests = true;/'
mutant takes-over-unchecked $handoff takeover \
    's/if !is_in_step\(\)/if is_in_step() \&\& false/'
mutant wake-sleeper-keeps-the-poller $handoff sleep \
    '/fn take_off/,/^    \}/ s/sleepers\.poller = None;//'
mutant no-thread-becomes-poller $sleep sleep \
    's/let poller = sleepers\.poller\.is_none\(\).*$/let poller = false;/'
mutant timer-wakes-no-sleeper $sleep sleep \
    '/fn timer_set/,/^    \}/ s/self\.wake_sleeper\(false\)/None/'
mutant timer-forgets-the-poller $sleep sleep \
    '/fn timer_set/,/^    \}/ s/return Some\(poller\)/return None.filter(|_: \&usize| poller == 0)/'
mutant searcher-not-counted $sleep sleep \
    '/fn end_sleep/,/^    \}/ s/place, SEARCHING/place, 0/'

mutant ring-does-not-fence-before-it-writes $ring recorder \
    '/fn write/,/^    \}/ s/fence\(Ordering::Release\);//'
mutant ring-publishes-relaxed $ring recorder \
    's/(written\.store\(number \+ 1, Ordering::)Release/\1Relaxed/'
mutant ring-is-read-relaxed $ring recorder \
    '/fn read/,/^    \}/ s/(written\.load\(Ordering::)Acquire/\1Relaxed/'
mutant ring-does-not-fence-before-its-second-look $ring recorder \
    '/fn read/,/^    \}/ s/fence\(Ordering::Acquire\);//'
mutant ring-takes-all-copies-for-whole $ring recorder \
    's/let whole = first\.max\(.*$/let whole = first.min(now);/'
mutant ring-keeps-what-is-being-overwritten $ring recorder \
    's/\(now \+ 1\)\.saturating_sub/(now).saturating_sub/'

mutant count-is-not-ordered $gate gate \
    '/fn count/,/^    \}/ s/checked_light_barrier\(\);//'
# The fence of the sums orders the close as well, so removing only the barrier of the close changes no execution.
mutant close-is-not-ordered $gate gate \
    '/fn close/,/^    \}/ s/heavy_barrier\(\);//; /fn totals/,/^    \}/ s/fence\(Ordering::SeqCst\);//'
mutant entered-is-added-first $gate gate \
    '/fn totals/,/^    \}/ { s/let left = (.*)tally\.left/let LATER = \1tally.entered/; s/let entered ='\
' (.*)tally\.entered/let left = \1tally.left/; s/LATER/entered/ }'
mutant leave-does-not-notify $gate gate \
    's/self\.left\.notify_all\(\);//'
mutant leave-notifies-without-lock $gate gate \
    's/let _waiting = lock\(\&self\.waiting\);//'
mutant enter-ignores-the-close $gate gate \
    's/let open = !self\.is_closed\(\);/let open = true;/'

mutant receiver-does-not-search $handoff handoff \
    '/fn give_away/,/^    \}/ s/self\.counts\.fetch_add\(SEARCHING, Ordering::SeqCst\);//'
mutant permit-queue-is-not-joined $permits handoff \
    '/fn wait\(/,/^    \}/ s/self\.waiting\.push_back\(thread\);//'
mutant sleep-ignores-the-permit-queue $sleep handoff \
    's/let given = sleepers\.permits\.pass_to_waiting\(thread, At::Detached\);/let given = None;/'
mutant called-thread-keeps-its-permit $handoff handoff \
    '/fn yield_permit/,/^    \}/ s/permits\.pass_to_waiting\(thread, At::Spare\)/None::<usize>/'
mutant passed-permit-is-kept $permits handoff \
    '/fn pass_to_waiting/,/^    \}/ s/self\.set\(from, then\);//'
mutant handed-off-permit-is-kept $permits handoff \
    '/fn pass_to_spare/,/^    \}/ s/self\.set\(from, then\);//'
mutant previous-holder-is-not-recorded $permits handoff \
    's/self\.places\[next\]\.behind = Some\(from\);//'
mutant sleeper-is-not-displaced $permits handoff \
    '/fn displace/,/^    \}/ s/self\.set\(sleeper, At::Spare\);//'
mutant sleeper-stays-on-the-list $handoff handoff \
    '/fn take_off/,/^    \}/ s/sleepers\.list\.remove\(place\)/sleepers.list[place]/'
mutant displaced-sleeper-wakes $sleep handoff \
    's/return sleepers\.permits\.permit\(thread\)\.is_some\(\);/return true;/'
mutant stop-forgets-the-permit-queue $handoff handoff \
    '/fn stop\(/,/^    \}/ s/sleepers\.permits\.detach_waiting\(\);//'
mutant stop-is-not-seen $handoff handoff \
    '/fn come_back/,/^    \}/ s/if !sleepers\.permits\.stopped/if true/'
mutant taken-over-is-not-detached $handoff handoff \
    '/fn take_over/,/^    \}/ s/At::Detached/At::Blocked/'
mutant detached-does-not-become-spare $handoff handoff \
    '/fn yield_permit/,/^    \}/ s/At::Detached => \{/At::Detached if false => {/'
mutant blocking-queue-seems-empty $handoff handoff \
    's/if self\.queued_steps\.load\(Ordering::SeqCst\) == 0/if true/'
mutant reservation-is-not-kept $handoff handoff \
    's/Some\(\(waiter, Reservation::Reserved\)\) => Need::Reserved\(waiter\)/Some((_, Reservation::Reserved)) =>'\
' Need::Blocking/'

mutant link-message-is-not-answered $message links \
    '/impl Drop for SentLinkMessage/,/^}/ s/back\.post\(/if false { return; } let _ = (back, /'
mutant link-message-is-answered-twice $message links \
    '/fn open/,/^    \}/ s/self\.message\.take\(\)/self.message.clone()/'
mutant link-message-is-leaked-at-exit $release links \
    's/^        drop\(envelope\);/        std::mem::forget(envelope);/'
mutant late-control-does-not-vacate $control links \
    's/Claim::Vacant => drop\(Token\(self\)\.acquire\(\)\.empty_and_park\(None\)\)/Claim::Vacant => {}/'
mutant link-message-is-not-posted $endpoint links \
    's/self\.request\(to\.generation\(\), control\);/std::mem::forget(control);/'
mutant request-is-not-counted $requesters vacant_slots \
    's/count\.fetch_add\(1, Ordering::SeqCst\);/count.fetch_add(0, Ordering::SeqCst);/; s/fetch_sub\(1,/fetch_sub(0,/'
mutant request-is-counted-after-the-look $requests vacant_slots \
    '/fn push_request/,/^    \}/ { /let counted/d; '\
's/let claim = /let counted = owner.requesters.count(self.index()); let claim = / }'
mutant request-leaves-before-the-push $requests vacant_slots \
    '/fn push_request/,/^    \}/ { s/drop\(counted\);//; s/let claim = /drop(counted); let claim = / }'
mutant request-leaves-unordered $requesters vacant_slots \
    's/fetch_sub\(1, Ordering::Release\)/fetch_sub(1, Ordering::Relaxed)/'
mutant request-to-one-that-is-over $requests vacant_slots \
    's/Phase::Over => false/Phase::Over => true/'
mutant request-without-a-second-look $requests vacant_slots \
    's/^( +)look\(\) == LifePhase::Exiting$/\1true/'
mutant request-without-a-barrier $requests links \
    's/^ +heavy_barrier\(\);//'
mutant kept-with-a-requester $release vacant_slots \
    's/!self\.0\.has_requesters\(\) \&\& //'
mutant kept-with-a-request $lanes vacant_slots \
    '/unsafe fn are_empty_in_order/,/^    \}/ s/self\.control\.load\(Ordering::SeqCst\)\.is_null\(\) && //'
mutant kept-before-it-is-over $release vacant_slots \
    '/fn vacate_unparked/,/^    \}/ s/self\.0\.generation\.vacate\(\);//'
mutant claimed-with-a-requester $token links \
    's/if slot\.has_requesters\(\)/if false/'
mutant parked-before-it-is-over $release links \
    '/fn park_vacant/,/^    \}/ s/self\.0\.generation\.vacate\(\);//'
mutant over-without-a-barrier $generation vacant_slots \
    '/fn vacate/,/^    \}/ s/checked_light_barrier\(\);//'
mutant notice-in-the-wrong-lane $endpoint links \
    's/let is_notice = sent\.is_notice\(\);/let is_notice = !sent.is_notice();/'
mutant member-is-added-unchecked $members registrations \
    's/if lives\(pid\)/if lives(pid) || true/'
mutant member-is-not-counted $members registrations \
    's/self\.cell\(pid\)\.fetch_add\(1, Ordering::SeqCst\);//; s/\.fetch_sub\(1,/.fetch_sub(0,/'
mutant refused-member-stays $members registrations \
    's/^        self\.remove\(pid, \&registration\);//'
mutant refused-member-is-counted $members registrations \
    's/if registrant\.is_some\(\)/if false \&\& registrant.is_some()/'
mutant add-is-not-ordered $members registrations \
    '/fn add/,/^    \}/ s/fence_for_models\(\);//'
mutant end-is-not-ordered $members registrations \
    '/fn may_have\(/,/^    \}/ s/fence_for_models\(\);//'
mutant end-forgets-a-member $members registrations \
    's/lock\(self\.shard\(pid\)\)\.remove\(\&pid\)/lock(self.shard(pid)).get(\&pid).map(|_| Registered::new())/'
mutant end-skips-the-members $members registrations \
    's/load\(Ordering::SeqCst\) != 0/load(Ordering::SeqCst) > 1/'
mutant edge-without-fence $graph wait_graph \
    '/^fn look</,/^\}/ s/fence\(Ordering::SeqCst\);//'
mutant edge-published-after-the-look $graph wait_graph \
    '/^pub\(crate\) fn publish</,/^\}/ { s/^    edge\.publish\(wait\);//; s/^        return None;/        edge.publish(wait);'\
' return None;/; s/^    look\(/    edge.publish(wait); look(/ }'
mutant next-is-seen-outside-the-lock $local wait_graph \
    '/fn is_next/,/^    \}/ s/self\.lock\.section\(0, is_it\) == Some\(true\)/is_it()/'
mutant any-process-runs-next $local wait_graph \
    '/fn is_next/,/^    \}/ s/slot\.index\(\) == index/slot.index() >= index/'
mutant closes-without-second-look $graph wait_graph \
    's/let cycle = cycle\(places, from, wait\)\?;/let cycle = vec![(from, wait)];/'
mutant closing-keeps-its-edge $graph wait_graph \
    '/^fn close</,/^\}/ s/^ +edge\.withdraw\(\);//'
mutant cycle-is-not-read-again $graph wait_graph \
    's/cycle\.iter\(\)\.all\(stands\)\.then_some\(cycle\)/Some(cycle)/'
mutant edge-published-relaxed $graph wait_graph \
    '/fn publish\(&self/,/^    \}/ s/length\)\.0, Ordering::Release/length).0, Ordering::Relaxed/'
mutant edge-keeps-its-number $graph wait_graph \
    '/fn publish\(&self/,/^    \}/ s/self\.word\.store\(EdgeWord::NONE\.0, Ordering::Relaxed\);//'
mutant edge-overwritten-unfenced $graph wait_graph \
    '/fn publish\(&self/,/^    \}/ s/fence\(Ordering::Release\);//'
mutant edge-read-relaxed $graph wait_graph \
    '/fn read/,/^    \}/ s/(let word = .*Ordering::)Acquire/\1Relaxed/'
mutant edge-read-without-fence $graph wait_graph \
    '/fn read/,/^    \}/ s/fence\(Ordering::Acquire\);//'
mutant edge-is-not-read-again $graph wait_graph \
    's/if self\.word\.load\(Ordering::Relaxed\) != word\.0/if false/'
mutant kept-counts-as-open $call wait_graph \
    '/fn is_open/,/^    \}/ s/has_no_mark_but\(TAKEN\)/has_no_mark_but(TAKEN | KEPT)/'

mutant call-taken-though-withdrawn $call wait_graph \
    '/^fn mark_as/,/^\}/ s/while !has_mark\(before, WITHDRAWN\)/while !has_mark(before, WITHDRAWN) || true/'
mutant call-taken-by-a-store $call wait_graph \
    '/^fn mark_as/,/^\}/ s/match word\.compare_exchange_weak\(before, marked.*$/match Ok::<(), *mut'\
' MailNode>(word.store(marked, Ordering::Relaxed)) {/'
mutant call-claimed-by-a-look $call wait_graph \
    '/fn claim/,/^\}/ s/\|\| take\(word\)/|| !is_withdrawn(word)/'
mutant call-withdrawn-by-a-store $call wait_graph \
    '/fn withdraw/,/^    \}/ s/self\.word\(\)\.compare_exchange\(open, withdrawn.*$/{ self.word().store(withdrawn,'\
' Ordering::Relaxed); !open.is_null() }/'
mutant call-withdrawn-unmarked $call wait_graph \
    's/self\.marked\(WANTED \| UNWANTED \| WITHDRAWN\)/self.marked(WANTED | UNWANTED)/'
mutant cycle-closes-without-withdrawal $graph wait_graph \
    '/^fn close</,/^\}/ s/if own\.withdraw\(\) \{/if own.withdraw() || true {/'

mutant next-is-not-checked-again $next next_due \
    's/raised \&\& self\.0\.lower\(least\(\)\)/raised \&\& false/'
mutant next-checked-again-is-not-reported $next next_due \
    's/raised \&\& self\.0\.lower\(least\(\)\)/raised \&\& self.0.lower(least()) \&\& false/'
mutant next-of-all-is-not-lowered $next next_due \
    '/pub\(crate\) fn lower/,/^    \}/ s/ \&\& self\.0\.lower\(due\)$//'
mutant next-of-all-is-lowered-first $next next_due \
    '/pub\(crate\) fn lower/,/^    \}/ { s/^        if due < of_wheel.*$/        let is_first = due < self.0.load()'\
' \&\& self.0.lower(due); if due < of_wheel.load() {/; s/^        due < self\.0\.load.*$/        is_first/ }'

mutant running-is-not-begun $running running \
    '/fn begin/,/^    \}/ s/self\.0\.store\(.*$/let _ = ptr::from_ref(token.slot());/'
mutant running-is-not-ended $running running \
    '/fn end/,/^    \}/ s/self\.0\.store\(.*$//'

mutant driver-rests-without-a-look $driver driver_state \
    '/pub\(crate\) fn rest/,/^    \}/ s/self\.0\.compare_exchange.*$/{ self.0.store(0, Ordering::SeqCst); true };/'
mutant driver-is-not-alone $driver driver_state \
    '/pub\(crate\) fn begin/,/^    \}/ s/self\.0\.compare_exchange.*$/{ let was = self.0.load(Ordering::SeqCst) == CALLED;'\
' if was { self.0.store(DRIVEN, Ordering::SeqCst) } was }/'
mutant driver-stops-uncalled $driver driver_state \
    '/pub\(crate\) fn stop/,/^    \}/ s/swap\(CALLED/swap(0/'
mutant driver-stops-by-a-store $driver driver_state \
    '/pub\(crate\) fn stop/,/^    \}/ s/swap\(/store(/'
mutant driver-ignores-a-second-call $driver driver_state \
    '/pub\(crate\) fn call\(/,/^    \}/ s/let before = .*$/let before = self.0.load(Ordering::SeqCst); if before == 0 '\
'{ self.0.fetch_or(CALLED, Ordering::SeqCst); }/'
mutant driver-begins-relaxed $driver driver_state \
    '/pub\(crate\) fn begin/,/^    \}/ s/Ordering::SeqCst/Ordering::Relaxed/'
mutant driver-rests-relaxed $driver driver_state \
    '/pub\(crate\) fn rest/,/^    \}/ s/DRIVEN, 0, Ordering::SeqCst/DRIVEN, 0, Ordering::Relaxed/'

mutant help-is-not-announced $help help \
    's/self\.is_there\.store\(true, Ordering::SeqCst\);//'
mutant help-is-looked-for-without-a-barrier $help help \
    's/^        checked_light_barrier\(\);$//'
mutant help-begins-without-a-barrier $help help \
    's/^            heavy_barrier\(\);$//'
mutant help-is-not-taken-away $help help \
    's/^        helper\.take\(\)$/        None/'
mutant help-has-been-taken-away $help help \
    's/self\.is_there\.load\(Ordering::SeqCst\) \&\& self\.notify_next\(notify\)/self.is_there.load(Ordering::SeqCst)/'

mutant sweep-announces-its-end-late $limits limits \
    '/pub\(crate\) fn sweep/,/^    \}/ { s/^        self\.note_sweep\(false\);$//; s/^        if again \{$/        self.note_sweep(false); if again {/ }'
mutant sweep-does-not-announce-the-next $limits limits \
    's/^            self\.note_sweep\(true\);$//'
mutant sweep-is-taken-for-granted $limits limits \
    's/^        self\.will_be_swept\.load\(.*$/        true/'

mutant end-keeps-the-late-message $release slot_reuse \
    's/if mine\.is_some\(\) \&\& mine == self\.first\(\)/if mine.is_none() \&\& mine != self.first()/'
mutant end-loses-its-token $release slot_reuse \
    '/fn park_vacant/,/^    \}/ s/ParkResult::Refused \| ParkResult::Reclaimed\(Claim::Vacant\) =>'\
' Some\(self\.acquire\(\)\)/ParkResult::Reclaimed(Claim::Vacant) => Some(self.acquire()), ParkResult::Refused =>'\
' None/'

mutant unused-token-is-not-taken $lanes new_slots \
    '/fn begin/,/^    \}/ s/^        self\.tail\.store\(.*$//'
mutant unused-token-is-taken-when-alive $token new_slots \
    '/fn claim_unused/,/^    \}/ s/^        slot\.lanes\.begin\(\);//; /fn open/,/^    \}/ '\
's/^        slot\.generation\.open\(generation\);/& if generation == 1 { slot.lanes.begin(); }/'
mutant unused-opened-relaxed $generation new_slots \
    's/(Phase::Alive\)\.0, Ordering::)Release/\1Relaxed/'
mutant unused-checked-relaxed $slot new_slots \
    '/fn is_living\(/,/^    \}/ s/Ordering::Acquire/Ordering::Relaxed/'
mutant unused-sent-unchecked $send new_slots \
    '/pub\(crate\) fn send</,/^    \}/ s/if !self\.carries_unrecorded\(to\)/if false \&\& !self.carries_unrecorded(to)/'
mutant unused-is-the-last-of-no-process $slot new_slots \
    '/fn is_last/,/^    \}/ s/generation != 0 \&\& //'

mutant name-retired-unchecked $names names \
    's/\.is_some_and\(is_free\)/.filter(|entry| is_free(entry) || true).is_some()/'
mutant name-retired-if-free $names names \
    's/alias\.free == Some\(number\)/alias.free.is_some_and(|free| free >= number)/'
mutant name-held-keeps-its-number $names names \
    's/alias\.free\.take\(\)/alias.free/'
mutant name-falls-free-twice $names names \
    's/Some\(entry\) if entry\.holder\(\) == Some\(pid\)/Some(entry) if entry.holder().is_some() || pid.is_alias()/'

mutant transport-lists-without-a-look $transport transport_queue \
    '/fn wait/,/^    \}/ s/if !waiting\.is_full/if false \&\& !waiting.is_full/'
mutant transport-room-leaves-it-full $transport transport_queue \
    's/^        waiting\.is_full = false;$/        let _ = waiting.is_full;/'
mutant transport-room-resumes-one $transport transport_queue \
    's/let listeners = std::mem::take\(\&mut waiting\.listeners\)/let listeners = waiting.listeners.pop_front()/'
mutant transport-room-is-taken-unlocked $transport transport_queue \
    '/pub fn set_room/,/^    \}/ { s/^        waiting\.is_full = false;$//; s/^        drop\(waiting\);$/        drop'\
'(waiting); lock(\&self.0).is_full = false;/ }'

mutant stuck-despite-pending-controls $slot stuck \
    '/fn is_stuck/,/^    \}/ s/blocks \|\| self\.lanes\.is_quiet\(\)/blocks || self.owner().is_some()/'
mutant stuck-in-any-incarnation $slot stuck \
    '/fn is_stuck/,/^    \}/ s/self\.is_living\(generation\)/generation != 0/'
mutant stuck-though-woken $lanes stuck \
    '/fn is_quiet/,/^    \}/ s/ \&\& marks\(control\) \& WOKEN == 0//'
mutant not-stuck-though-it-blocks $slot stuck \
    '/fn is_stuck/,/^    \}/ s/blocks \|\| self\.lanes/!(blocks \&\& false) \&\& self.lanes/'

mutant local-taken-without-waiting $lock local_tokens \
    's/!self\.busy\.load\(Ordering::Acquire\)/true/'
mutant local-section-ends-relaxed $lock local_tokens \
    's/(busy\.store\(false, Ordering::)Release/\1Relaxed/'
mutant local-section-despite-revoked $lock local_tokens \
    's/\(FENCED \| REVOKED \| forbidden\)/(FENCED | forbidden)/'
mutant local-revoked-ends-relaxed $lock local_tokens \
    's/(fetch_and\(!REVOKED, Ordering::)Release/\1Relaxed/'
mutant awake-limit-of-nothing $sleep sleep \
    's/awake\.max\(1\)/awake.min(0)/'
mutant awake-limit-lets-all-sleep $sleep sleep \
    's/self\.sleeping\(\) > self\.held\(\)/self.sleeping() > self.held() + 1/'
mutant local-sleeps-after-one-look $local local_tokens \
    's/while self\.has_any\(\)/if self.has_any()/'
mutant local-sleeps-after-it-got-no-more-slots $local vacant_slots \
    's/while self\.has_any\(\)/if self.has_any()/'
mutant local-sleeps-with-a-cache $local local_tokens \
    '/fn has_any/,/^    \}/ s/ \|\| self\.has_cached\(\)//'
mutant local-sleeps-with-one-to-run-next $local local_tokens \
    '/fn has_any/,/^    \}/ s/self\.has_next\(\) \|\| //'
mutant local-sleeps-with-vacant-slots $local vacant_slots \
    '/fn has_any/,/^    \}/ s/ \|\| self\.has_vacant\(\)//'
mutant local-sleeps-with-one-at-the-front $local sleep \
    '/fn has_cached/,/^    \}/ s/self\.has_front\(\) \|\| //'
mutant local-waiting-is-not-taken $local sleep \
    's/self\.cache\.take_all\(\&mut cached\);//'
mutant local-waiting-parks-despite-its-answer $evict sleep \
    '/Some\(ParkKind::Waiting\)/,/^        \}/ s/ParkResult::Refused => Evicted::HasInput\(self\)/ParkResult::Refused =>'\
' Evicted::Parked/'
mutant local-gives-up-without-telling $lock local_tokens \
    's/self\.attention\.fetch_and\(!REVOKED, Ordering::Release\);/if revoked.is_some() { & }/'
mutant local-gives-up-and-takes-all $local local_tokens \
    '/fn revoke/,/^    \}/ s/^        \}\)\?;$/        }).or_else(|| { self.cache.take_all(\&mut cached); Some(None) })?;/'
mutant local-answer-is-left-behind $local local_tokens \
    '/fn revoke/,/^    \}/ s/\.map\(\|token\| self\.push_answer\(token\)\)//'
mutant local-displaced-without-its-answer $local local_tokens \
    's/\.map\(\|displaced\| self\.push_answer\(displaced\)\)//'
mutant local-answer-of-another $local local_tokens \
    '/fn has_answer/,/^    \}/ s/ptr::eq\(self\.answered.*\)$/token.slot().index() < u32::MAX/'
mutant local-answer-overtakes $local local_tokens \
    '/fn put_answered_next/,/^    \}/ s/ \&\& !slot\.lanes\.has_control\(\)//'
mutant local-kept-is-not-notified-of-messages $send local_tokens \
    's/Ok\(self\.take_kept\(\)\)/{ drop(self.take_kept()); Ok(None) }/'
mutant local-kept-is-not-notified-of-controls $slot local_tokens \
    '/fn run_if_kept/,/^    \}/ s/token\.wake\(\);/drop(token);/'
mutant local-filled-behind-others $lanes local_tokens \
    '/fn empty_first/,/^    \}/ s/self\.0\.tail\.load\(Ordering::Acquire\) == head\.as_ptr\(\)/head.addr().get() > 1/'
mutant local-filled-is-not-notified $place local_tokens \
    '/if let Some\(token\) = local\.take\(slot\)/,/^            \}/ s/token\.wake\(\);/drop(token);/'
mutant local-block-does-not-notify $place local_tokens \
    's/token\.release\(\)\.wake\(\);/drop(token);/'
mutant local-filled-despite-revoked $local local_tokens \
    '/fn begin_refill/,/^    \}/ s/self\.lock\.may_move\(attention, 0\)/attention < u16::MAX/'
mutant local-follows-despite-revoked $local local_tokens \
    '/fn keep_for_next/,/^    \}/ s/usize::from\(attention\) \| //'
mutant local-follows-in-the-way-of-next $local local_tokens \
    '/fn keep_for_next/,/^    \}/ s/self\.run_next\.store\(ptr::null_mut\(\), Ordering::Relaxed\);//'
mutant local-waits-unseen $local local_tokens \
    '/fn keep_for_next/,/^    \}/ s/token\.slot\(\)\.permit\.keep\(Some\(kind\)\);//'
mutant cache-keeps-what-is-sent-to $local local_tokens \
    's/^( +)place\.store\(ptr::null_mut\(\), Ordering::Relaxed\);$//'
mutant cache-keeps-what-is-taken $cache local_tokens \
    '/fn take_from/,/^    }/s/place\.store\(ptr::null_mut\(\), Ordering::Relaxed\);//'
mutant cache-keeps-what-is-seen $cache local_tokens \
    '/fn take_filled/,/^    }/s/place\.store\(ptr::null_mut\(\), Ordering::Relaxed\);//'
mutant cache-is-not-revoked $local local_tokens \
    's/self\.cache\.take_all\(\&mut cached\);//'
mutant cache-is-left $local local_tokens \
    's/self\.take_cached\(\)\.map\(Kept::Cached\)\.for_each\(\&mut put\);//'
mutant cache-forgets-those-cached-lately $cache local_tokens \
    's/^( +)self\.recently\.store\(recently \+ 1, Ordering::Relaxed\);$//'
mutant cache-mark-is-seen-out-of-order $permit local_tokens \
    '/fn is_kept_idle_after_push/,/^    \}/ { s/fence_for_models\(\);//; s/SeqCst/Relaxed/ }'
mutant cache-mark-is-seen-out-of-order-by-answers $permit local_tokens \
    '/fn is_kept_after_push/,/^    \}/ { s/fence_for_models\(\);//; s/SeqCst/Relaxed/ }'
mutant cache-place-is-seen-out-of-order $cache local_tokens \
    '/fn has\(/,/^    \}/ { s/fence_for_models\(\);//; s/SeqCst/Relaxed/ }'
mutant depot-keeps-one-more $magazine depot \
    's/(count\.fetch_add\(1, Ordering::Relaxed\)) >= \*most/\1 > *most/'
mutant depot-reserves-in-two-steps $magazine depot \
    's/count\.fetch_add\(1, Ordering::Relaxed\) >= \*most/{ let before = count.load(Ordering::Relaxed); '\
'count.store(before + 1, Ordering::Relaxed); before } >= *most/'
mutant depot-counts-what-is-surplus $magazine depot \
    's/^( *)count\.fetch_sub\(1, Ordering::Relaxed\);/\1let _ = count;/'
mutant depot-releases-before-it-takes $magazine depot \
    's/^ *bound\.count\.fetch_sub\(1, Ordering::Relaxed\);/let _ = bound;/; '\
's/let magazine = (self\.magazines\.pop\(\)\?;)/if let Some(bound) = \&self.bound { '\
'bound.count.fetch_sub(1, Ordering::Relaxed); } let magazine = \1/'
mutant depot-does-not-release $magazine depot \
    's/bound\.count\.fetch_sub\(1, Ordering::Relaxed\);/let _ = bound;/'

exit $missed
