# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# accidents.sh -- for rpc-test: calls go on while processes are killed and power fails
#
# shellcheck disable=SC2034,SC2154 # rpc-test sets these and uses them

# start_other -- a client with long calls; before says how many of them are executed when it is there
start_other()
{
	: >"$work/other.log"
	# Without timeout, which would be what is killed.
	"${program[@]}" "${load[@]}" -P "$port" -v -t 600 -n 10000000 -S 5000 -i "$work/other" "$address" >"$work/other.log" 2>&1 &
	other=$!
	until [[ $(<"$work/other.log") =~ ([0-9]+)\ calls\ of\ this\ client ]]; do
		kill -0 "$other" || return
		sleep 0.05
	done
	before=${BASH_REMATCH[1]}
}

# executed LOG -- so many calls are executed, says a client, with those of its earlier lives
executed()
{
	sed -n 's/.*: \([0-9]*\) calls of this client.*/\1/p; s/.*: \([0-9]*\) calls executed$/\1/p' "$1" | awk '
		NR == 1 { before = $1 }
		NR > 1 { here = $1 }
		END { printf "%.0f\n", before + here }'
}

# kill_other -- and start it again: what it was told before is still there
kill_other()
{
	local told looked=0

	# The last one may have only looked, and left nothing behind.
	[[ " ${load[*]} " != *" --reads "* ]] || looked=1
	kill -9 "$other" && { wait "$other" || :; } 2>/dev/null
	told=$(executed "$work/other.log")
	"$@"
	start_other || return
	[ "$((before + looked))" -ge "$told" ] && return
	echo "a client was told that $told calls were executed, and $before were"
	return 1
}

# again_after ACCIDENT -- that happens to the server, and it is started again
again_after()
{
	"$1" && begin && crashes=$((crashes + 1)) && cat "$work/server.log"
}

# goes_on CALLS -- whatever comes now goes on where that ended
goes_on()
{
	"${rpc[@]}" "${load[@]}" -n 10 -i "$work/id" "$address" >"$work/again.log" 2>&1 || return
	cat "$work/again.log"
	grep -q "$1 calls of this client are executed already" "$work/again.log"
}

# under_load ACCIDENT... -- calls go on while these happen in turn, so often as --kills says: the clients see that
# none is lost, and none counted twice.  One client has short calls, the other one has long ones.
under_load()
{
	local client other before status=0 total i accidents=("$@") crashes=0

	left=0
	begin || return
	: >"$work/client.log"
	timeout "$seconds" "${program[@]}" "${load[@]}" -P "$port" -v -t 600 -n 10000000 -i "$work/id" "$address" >"$work/client.log" 2>&1 &
	client=$!
	start_other || status=1
	for ((i = 0; i < kills && !status; i++)); do
		await "$work/client.log" "$client"
		${accidents[i % ${#accidents[@]}]} || status=1
	done
	# Without a connection they would end at once, and not count.  timeout passes it on.
	await "$work/client.log" "$client"
	await "$work/other.log" "$other"
	kill -TERM "$client" "$other"
	wait "$client" || status=1
	wait "$other" || status=1
	tail -n 2 "$work/client.log" "$work/other.log"
	grep -q "$crashes times connected again" "$work/client.log" || status=1
	# Clients always have calls that wait: some were executed without them.  Without msync that is not sure.
	[ -z "$again" ] || [ "$left" -gt 0 ] || { echo "nothing was executed when the server started"; status=1; }
	total=$(sed -n 's/.*: \([0-9]*\) calls, each executed once.*/\1/p' "$work/client.log")
	[ -z "$again" ] || goes_on "${total:-no}" || status=1
	total=$((${total:-0} + $(executed "$work/other.log")))
	[ $status = 1 ] || echo "$kills accidents, $crashes of a server: $total calls, 0 lost, 0 executed twice"
	finish && return $status
}

try_killed()
{
	under_load "again_after crash"
}

# sanitizer -- what has to be loaded before anything else
sanitizer()
{
	# Without one, ldd would take long in an emulator.
	! grep -qE 'lib[at]san' "$real" || ldd "$real" | sed -n 's/.*=> \(.*lib[at]san[^ ]*\) .*/\1/p'
}

# lose_power -- the server is gone, and the store has what was synced and nothing else
lose_power()
{
	crash
	cp "$work/disk/store" "$work/store"
}

try_power()
{
	local status

	mkdir "$work/disk"
	preload=(env "PMEM_CP_DISK=$work/disk" "LD_PRELOAD=$(sanitizer) $programs/.libs/libcp_crash.so $loaded")
	under_load "again_after lose_power" && loses lose_power
	status=$?
	preload=()
	return $status
}

# loses ACCIDENT -- what the test has to notice: where commits are told that there is nothing to make durable, calls get
# lost that were said to be durable.  At each failure of power some are under way; that none of them was told is rare.
loses()
{
	local client status i

	preload+=(FI_PMEMVERBS_DOMAIN=mhp)
	begin || return
	: >"$work/client.log"
	timeout "$seconds" "${program[@]}" "${load[@]/srflush/sflush}" -P "$port" -v -t 600 -n 10000000 -i "$work/lies" "$address" >"$work/client.log" 2>&1 &
	client=$!
	for ((i = 1; i <= 20; i++)); do
		await "$work/client.log" "$client"
		kill -0 "$client" 2>/dev/null || break
		"$1"
		begin || break
	done
	kill -TERM "$client" 2>/dev/null
	wait "$client"
	status=$?
	tail -n 2 "$work/client.log"
	finish && [ $status = 1 ] && grep -q 'it has lost some' "$work/client.log" && return
	echo "nothing that was durable is lost, though nothing makes it durable"
	return 1
}

# lose_caches -- the server is gone, and the store has what was flushed; one time in two also what nobody has flushed
lose_caches()
{
	crash
	keep=$((50 - keep))
	"$programs/lose_caches" "$store" "$work/caches" $keep
}

lose_all()
{
	keep=50
	lose_caches
}

# As a failure of the power with ADR: the processor's caches are lost.
try_caches()
{
	local keep=0 status again='' store=${memory:-$work/store} options=(--clients 8)

	# A device may have a store already; a file is made.
	{ [ -n "$memory" ] || { begin && finish; }; } && "$programs/lose_caches" "$store" "$work/caches" begin || return
	preload=(env "PMEM_CACHES_MEMORY=$store" "PMEM_CACHES_DISK=$work/caches"
		"LD_PRELOAD=$(sanitizer) $programs/.libs/libcaches.so $loaded")
	# Of a file it is only said that it is such memory.
	[ -n "$memory" ] || preload+=(PMEM2_FORCE_GRANULARITY=CACHE_LINE FI_PMEMVERBS_DOMAIN=dmp)
	under_load "kill_other again_after lose_caches" "again_after lose_caches" kill_other &&
		loses lose_all
	status=$?
	preload=()
	return $status
}
