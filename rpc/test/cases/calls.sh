# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# calls.sh -- for rpc-test: calls, clients and what a server says
#
# shellcheck disable=SC2034,SC2154 # rpc-test sets these and uses them

try_calls()
{
	begin && "${rpc[@]}" -n 200 127.0.0.1 && "${rpc[@]}" -n 100 -S 1 127.0.0.1 && finish &&
		grep -q '300 calls, 0 of them without their client; 2 connections, 0 refused' "$work/server.log"
}

# Who a client is has to be durable before it makes a call: found, it is written again, and synced.  If a
# sync fails there is no call.
try_id()
{
	local before what

	begin && "${rpc[@]}" -n 3 -i "$work/id" 127.0.0.1 && before=$(od -An -tx1 "$work/id") && touch -d @0 "$work/id" &&
		"${rpc[@]}" -n 3 -i "$work/id" 127.0.0.1 || return
	[ "$(stat -c %Y "$work/id")" != 0 ] || { echo "the id was not written"; return 1; }
	[ "$(od -An -tx1 "$work/id")" = "$before" ] || { echo "the id is another one"; return 1; }
	for what in id "${work##*/}"; do
		refused 1 'Input/output error' env PMEM_CP_ACCIDENT="fail_fsync:/$what" \
			"LD_PRELOAD=$(sanitizer) $programs/.libs/libcp_crash.so $loaded" "${program[@]}" -P "$port" -n 3 -i "$work/id" 127.0.0.1 || return
	done
	finish && grep -q '6 calls, 0 of them without their client; 2 connections, 0 refused' "$work/server.log"
}

# A window of replies is asked for, and calls are made at once; then the connection is lost meanwhile.
try_replies()
{
	local client i

	begin && "${rpc[@]}" "${load[@]}" -n 100 -i "$work/id" 127.0.0.1 || return
	for i in 1 2 3; do
		timeout 60 "${rpc[@]}" "${load[@]}" -n 100 -i "$work/id" --replies 127.0.0.1 | tee "$work/client.log"
		grep -q '32 replies of an earlier life' "$work/client.log" || return
	done
	finish && grep -q ' 0 refused' "$work/server.log" || return
	for i in 0 0.002 0.01; do
		begin || return
		: >"$work/client.log"
		timeout 60 "${program[@]}" "${load[@]}" -P "$port" -n 200 -i "$work/id" --replies 127.0.0.1 >"$work/client.log" 2>&1 &
		client=$!
		until grep -q 'executed already' "$work/client.log" || ! kill -0 "$client" 2>/dev/null; do sleep 0.001; done
		sleep "$i"
		crash
		begin || return
		wait "$client" || { cat "$work/client.log"; return 1; }
		cat "$work/client.log"
		finish && grep -q ' 0 refused' "$work/server.log" || return
	done
}

# Entries of three writes, which wrap; one that fills the ring; one that does not fit.
try_long()
{
	begin --ring 8192 && "${rpc[@]}" -n 60 -S 3000 127.0.0.1 && "${rpc[@]}" -n 20 -S 8176 127.0.0.1 &&
		refused 1 'has room for 8176' "${rpc[@]}" -n 1 -S 8177 127.0.0.1 && finish
}

# A server with one ring: it goes from one client to the next, but not while it has an owner.
try_rings()
{
	begin --clients 1 && "${rpc[@]}" -n 3 127.0.0.1 && "${rpc[@]}" -n 3 -i "$work/id" 127.0.0.1 &&
		refused 1 'all rings have an owner' "${rpc[@]}" -n 3 127.0.0.1 &&
		"${rpc[@]}" -n 3 -i "$work/id" --forget 127.0.0.1 && "${rpc[@]}" -n 3 127.0.0.1 && finish &&
		rm "$store" || return
	# With several of them one address can have one.
	begin --clients 4 --rings-per-peer 1 && "${rpc[@]}" -n 3 -i "$work/id" 127.0.0.1 &&
		refused 1 'as many rings as it may' "${rpc[@]}" -n 3 127.0.0.1 &&
		"${rpc[@]}" -n 3 -i "$work/id" 127.0.0.1 && finish
}

# A client whose server is away goes on trying, until it is to end.
try_ended()
{
	local client

	begin || return
	: >"$work/client.log"
	timeout "$seconds" "${program[@]}" -P "$port" -v -t 600 -n 10000000 127.0.0.1 >"$work/client.log" 2>&1 &
	client=$!
	await "$work/client.log" "$client"
	crash
	server=''
	kill -TERM "$client"
	wait "$client"
	set -- $?
	tail -n 2 "$work/client.log"
	[ "$1" = 1 ] && grep -q 'ended while there was no connection' "$work/client.log"
}

# The later one of two processes with one identity has it; the other one is told so.
try_same_id()
{
	local client status

	begin || return
	: >"$work/client.log"
	timeout 120 "${program[@]}" -P "$port" -v -n 10000000 -i "$work/id" 127.0.0.1 >"$work/client.log" 2>&1 &
	client=$!
	await "$work/client.log" "$client"
	"${rpc[@]}" -n 20 -i "$work/id" 127.0.0.1
	status=$?
	wait "$client" && status=1
	tail -n 2 "$work/client.log"
	grep -q 'another process has used this identity' "$work/client.log" && finish &&
		grep -q ' 1 refused' "$work/server.log" && return $status
}

# What the dead client has left in its ring is executed; then it comes back.
try_client_killed()
{
	local client i

	begin || return
	for i in 1 2 3; do
		: >"$work/client.log"
		"${program[@]}" "${load[@]}" -P "$port" -v -n 100000 -i "$work/id" 127.0.0.1 >"$work/client.log" 2>&1 &
		client=$!
		await "$work/client.log" "$client"
		kill -9 "$client" && { wait "$client" || :; } 2>/dev/null
		cat "$work/client.log"
	done
	"${rpc[@]}" "${load[@]}" -n 20 -i "$work/id" 127.0.0.1 && finish && grep -q '4 connections, 0 refused' "$work/server.log"
}

try_both_killed()
{
	local client i

	for i in 1 2 3; do
		begin || return
		: >"$work/client.log"
		"${program[@]}" "${load[@]}" -P "$port" -v -n 100000 -i "$work/id" 127.0.0.1 >"$work/client.log" 2>&1 &
		client=$!
		await "$work/client.log" "$client"
		kill -9 "$server" "$client" && { wait "$server" "$client" || :; } 2>/dev/null
		cat "$work/client.log" "$work/server.log"
	done
	begin && "${rpc[@]}" "${load[@]}" -n 20 -i "$work/id" 127.0.0.1 && finish
}

# A client that means ill, beside one that does not notice.
try_hostile()
{
	local client status=0 store=${memory:-$work/store} options=(--clients 8)

	begin || return
	"${rpc[@]}" -n 300 "$address" >"$work/client.log" 2>&1 &
	client=$!
	"$programs/rpc_hostile" "$address" "$port" || status=1
	wait "$client" || status=1
	cat "$work/client.log"
	# A connection counts when it has a ring, and some attackers are gone too soon.  Three of their entries are good.
	finish && grep -q '367 calls, [0-9]* of them without their client; [0-9]* connections, 16 refused' "$work/server.log" &&
		return $status
}

# Many clients of a server with four threads, half of which send.  All have their effects, and its memory
# grows with them, not without end: CROWD_BASE_KIB is what it may take without any.
try_crowd()
{
	local peak calls=$((crowd > 100 ? 3 : 20))

	ulimit -n "$(ulimit -Hn)"
	begin --clients "$crowd" --ring 4096 --threads 4 || return
	nice -n 10 "$programs/rpc_crowd" 127.0.0.1 "$port" "$crowd" $calls || return
	peak=$(sed -n 's/VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$server/status")
	echo "the server has used at most $peak KiB"
	finish && grep -q " $((crowd * calls + 1)) calls, 0 of them without their client; $((crowd + crowd / 2)) connections, 0 refused" \
		"$work/server.log" && [ "$peak" -lt $((${CROWD_BASE_KIB-100000} + 1000 * crowd)) ]
}

# What a server says of itself, while it runs and in the end; and with all options at once.
try_counters()
{
	begin --pool 2 --throttle 8 --rate 2000 || return
	"${rpc[@]}" -n 200 --batch 4 --depth 16 --measure 127.0.0.1 | tee "$work/client.log" &&
		grep -q 'depth 16, batch 4' "$work/client.log" || return
	kill -USR1 "$server"
	await_words ' 2 of the pool' "$work/server.log" "$server" || return
	grep -q ' 200 calls that are executed' "$work/server.log" && grep -q ' 12800 bytes of arguments' "$work/server.log" &&
		"${rpc[@]}" -n 100 --batch 1 127.0.0.1 && finish &&
		grep -q ' 300 calls that are executed' "$work/server.log" && grep -q ' 19200 bytes of arguments' "$work/server.log"
}

# with_few COUNT COMMAND... -- so many descriptors, three of which are open
with_few()
{
	timeout 60 bash -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n "$1" && exec "${@:2}"' bash "$@"
}

# Neither side can do anything with so few descriptors, and says so.  A server that has none left ends as it should.
try_few_descriptors()
{
	local few i=0

	begin || return
	for few in 4 5 6 8; do
		refused 1 'Too many open files' with_few "$few" "${program[@]}" -P "$port" -n 3 127.0.0.1 &&
			refused 1 'Too many open files' with_few "$few" "${program[@]}" -P $((port + 50)) -M "$work/other" || return
	done
	while [ -e "/proc/$server/fd/$i" ]; do i=$((i + 1)); done
	prlimit --pid "$server" --nofile="$i": && finish
}

try_words()
{
	refused 2 'a server needs --memory' "${rpc[@]}" &&
		refused 2 "there is no variant 'rflush'" "${rpc[@]}" --variant rflush 127.0.0.1 &&
		refused 2 "-S: '99999999999' is not a number from 1 to" "${rpc[@]}" -S 99999999999 127.0.0.1 &&
		refused 1 'no connection to 127.0.0.1, port' "${rpc[@]}" -t 1 127.0.0.1 &&
		refused 1 '/dev/null: neither a file nor a device' "${rpc[@]}" -M /dev/null &&
		refused 1 'there is no host' "${rpc[@]}" -t 1 no-such-host.invalid &&
		refused 2 'a multiple of 4096' "${rpc[@]}" -M "$work/store" --ring 1000 || return
	refused 1 'below /dev' "${rpc[@]}" -M /dev/pmemverbs0.0 && ! test -e /dev/pmemverbs0.0 || return
	begin && refused 1 'another process serves' "${rpc[@]}" -M "$work/store" && finish &&
		refused 1 'was made with other sizes' "${rpc[@]}" -M "$work/store" --ring 4096 || return
	printf 'somebody else has written this' >"$work/text"
	refused 1 'it would have 16 bytes' "${rpc[@]}" -n 1 -i "$work/text" 127.0.0.1 &&
		refused 1 'No such file' "${rpc[@]}" -n 1 -i "$work/none/id" 127.0.0.1 || return
	refused 1 'is no store' "${rpc[@]}" -M "$work/text" && [ "$(wc -c <"$work/text")" = 30 ] || return
	printf 'x' | dd of="$work/store" bs=1 seek=20 conv=notrunc status=none
	refused 1 'is damaged' "${rpc[@]}" -M "$work/store" &&
		refused 1 'nothing can be made durable' "${rpc[@]}" -M /dev/shm/rpc-test.$$
	status=$?
	rm -f /dev/shm/rpc-test.$$
	return $status
}
