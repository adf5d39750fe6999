# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# variants.sh -- for rpc-test: who flushes, and calls that are sent
#
# shellcheck disable=SC2034,SC2154 # rpc-test sets these and uses them

# by SETTINGS VARIANT... -- with these at the server all these are possible, and are what is used
by()
{
	local variant settings sender

	read -ra settings <<<"$1"
	shift
	preload=(env "${settings[@]}")
	begin || return
	for variant; do
		"${rpc[@]}" -n 50 --batch 1 --variant "$variant" "$address" >"$work/client.log" 2>&1
		cat "$work/client.log"
		sender=50
		[ "$variant" = "${variant/rflush/}" ] || sender=0
		grep -q " $variant: entries are" "$work/client.log" &&
			grep -q " $sender commits flushed by the sender, $((50 - sender)) by the receiver" "$work/client.log" ||
			return
	done
	finish
}

# not_by SETTINGS WORDS VARIANT... -- none of these.  What is refused does not depend on the core: not in a guest, where each
# program takes seconds.
not_by()
{
	local variant settings words=$2

	[ -z "$memory" ] || return 0
	read -ra settings <<<"$1"
	shift 2
	preload=(env "${settings[@]}")
	begin || return
	for variant; do
		refused 1 "$words" "${rpc[@]}" -n 50 --variant "$variant" "$address" || return
	done
	finish && grep -q ': 0 calls' "$work/server.log"
}

# elsewhere -- what is declared of caches decides likewise, whatever the core
elsewhere()
{
	local on='FI_PMEMVERBS_DOMAIN=dmp FI_PMEMVERBS_DDIO=on'

	by "$on" wrflush srflush && not_by "$on" 'inbound data stays in its caches' wflush sflush &&
		by "$mhp" wflush sflush && not_by "$mhp" 'FI_PMEMVERBS_DOMAIN=dmp' wrflush srflush &&
		by FI_PMEMVERBS_DOMAIN=wsp wflush sflush && without_agent
}

# What the paper has, each forced by what is declared at the server, or refused.
try_variants()
{
	local store=${memory:-$work/store} options=(--clients 8) status others=(elsewhere)
	local off='FI_PMEMVERBS_DOMAIN=dmp FI_PMEMVERBS_DDIO=off' mhp='FI_PMEMVERBS_DOMAIN=mhp'

	[ -z "$memory" ] || others=()
	by '' wrflush srflush && not_by '' 'makes no entries durable' wflush sflush &&
		by "$off" wflush sflush && not_by "$off" 'does not need its agent' wrflush srflush && "${others[@]}"
	status=$?
	preload=()
	return $status
}

# without_agent -- or without order; in a file, which has pages whatever is said of DDIO
without_agent()
{
	not_by FI_PMEMVERBS_DDIO=off 'only msync at the server' wflush sflush &&
		by "$mhp FI_PMEMVERBS_AGENT=off" wflush sflush &&
		not_by FI_PMEMVERBS_AGENT=off 'is switched off' write wrflush send srflush &&
		by FI_PMEMVERBS_ORDERING=relaxed wrflush &&
		not_by FI_PMEMVERBS_ORDERING=relaxed 'FI_PMEMVERBS_ORDERING=relaxed' send srflush sflush &&
		not_by FI_PMEMVERBS_DOMAIN=none 'is durable (FI_PMEMVERBS_DOMAIN=none)' wflush wrflush sflush srflush
}

# A server whose provider has another version: no client goes on without end, whoever would flush.
try_other_version()
{
	local other=LD_PRELOAD=$programs/.libs/libother_version.so rpc=(timeout -s KILL 60 "${rpc[@]}") status

	not_by "$other FI_PMEMVERBS_DOMAIN=mhp" 'it is another version' write wflush wrflush &&
		not_by "$other" 'it is another version' write wflush wrflush &&
		not_by "$other" 'is of another version' send sflush srflush && comes_back_to_other
	status=$?
	preload=()
	return $status
}

# comes_back_to_other -- a client that has calls there
comes_back_to_other()
{
	local client status

	preload=()
	begin || return
	: >"$work/client.log"
	timeout -s KILL 60 "${program[@]}" -P "$port" -v -n 10000000 -i "$work/id" 127.0.0.1 >"$work/client.log" 2>&1 &
	client=$!
	await "$work/client.log" "$client"
	crash
	preload=(env "$other")
	begin || return
	wait "$client"
	status=$?
	tail -n 2 "$work/client.log"
	[ "$status" = 1 ] && grep -q 'it is another version' "$work/client.log" && finish
}

# Cells of all sizes: many, two, one; none.  An identity that goes from one transport to the other and back.
try_sent()
{
	local send=("${rpc[@]}" --variant send)

	begin --ring 8192 && "${send[@]}" -n 200 127.0.0.1 && "${send[@]}" -n 100 -S 1 127.0.0.1 &&
		"${send[@]}" -n 60 -S 3000 127.0.0.1 && "${send[@]}" -n 20 -S 8176 127.0.0.1 &&
		refused 1 'no room for such an argument' "${send[@]}" -n 1 -S 8177 127.0.0.1 &&
		"${send[@]}" -n 45 -S 1000 -i "$work/id" 127.0.0.1 && "${rpc[@]}" -n 3 -S 100 -i "$work/id" 127.0.0.1 &&
		"${send[@]}" -n 45 -S 200 -i "$work/id" 127.0.0.1 && "${rpc[@]}" -n 7 -i "$work/id" 127.0.0.1 &&
		"${send[@]}" -n 10 -i "$work/id" --forget 127.0.0.1 && finish &&
		grep -q '490 calls, 0 of them without their client; 14 connections, 1 refused' "$work/server.log" || return
	rm "$work/store"
	# A ring that is given back: nothing can be received in it any more.
	begin --clients 1 && "${send[@]}" -n 3 127.0.0.1 && "${rpc[@]}" -n 3 127.0.0.1 &&
		"${send[@]}" -n 3 127.0.0.1 && "${send[@]}" -n 3 -i "$work/other" 127.0.0.1 &&
		refused 1 'all rings have an owner' "${send[@]}" -n 3 127.0.0.1 && finish
}

try_sent_replies()
{
	local load=(--variant send)

	try_replies
}

try_sent_killed()
{
	local load=(--variant send)

	try_killed
}

try_sent_client_killed()
{
	local load=(--variant send)

	try_client_killed && rm "$work/store" "$work/id" && try_both_killed
}

# A pool executes them: cells are free again when it is done.
try_sent_pool()
{
	local load=(--variant send) options=(--pool 3)

	under_load "again_after crash" kill_other
}

# The agent does it, and without it calls get lost.
# try_mixed -- every other call is not committed, and only its reply is waited for; every third one only reads
try_mixed()
{
	local load=(--reply-only --reads) accident

	for accident in killed client_killed both_killed; do
		"try_$accident" || return
		rm -f "$work/store" "$work/id" "$work/other"
	done
	load+=(--variant send)
	try_killed
}

try_mixed_power()
{
	local load=(--reply-only --reads)

	try_power
}

try_mixed_caches()
{
	local load=(--reply-only --reads)

	try_caches && rm -f "$work/store" "$work/id" "$work/other" && load+=(--variant srflush) && try_caches
}

try_sent_power()
{
	local load=(--variant srflush)

	try_power
}

try_sent_caches()
{
	local load=(--variant srflush)

	try_caches
}

# What is only declared to survive does so if only processes die.
try_sender_flushes()
{
	local variant status=0

	preload=(env FI_PMEMVERBS_DOMAIN=mhp)
	for variant in wflush sflush; do
		rm -rf "${work:?}"/*
		load=(--variant "$variant")
		under_load "again_after crash" kill_other || status=1
	done
	preload=() load=()
	return $status
}
