# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# soak.sh -- targets, and clients that make random operations, both of which are killed and started again
#
# Who sources this sets program, work, records, clients and seed, and has a function start_client
# NUMBER.  A client prints a line "back" for each operation that has ended.

# shellcheck disable=SC2154 # what sources this sets them
. "$(dirname "${BASH_SOURCE[0]}")/../common/await.sh"

targets=() lives=0 processes=0
pids=() histories=() seen=()

# shellcheck disable=SC2317 # a trap calls it
clean_up()
{
	local pid

	for pid in "${targets[@]}" "${pids[@]}"; do
		[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null
	done
	wait 2>/dev/null
}

# serve NUMBER PORT MEMORY -- a target, which says what it has to say in $work/target.$lives
serve()
{
	lives=$((lives + 1))
	: >"$work/target.$lives"
	"$program" -B "$2" -M "$3" -N "$records" >"$work/target.$lives" 2>&1 &
	targets[$1]=$!
	await_ready "$work/target.$lives" "${targets[$1]}" || die "the target does not start"
}

# start_soak NUMBER ARGUMENT... -- that client
start_soak()
{
	local number=$1

	shift
	processes=$((processes + 1))
	histories[number]=$work/history.$processes
	seen[number]=0
	: >"${histories[number]}"
	"$program" --seed $((seed * 1000 + processes)) "$@" >"${histories[number]}" 2>"$work/client.$processes" &
	pids[number]=$!
}

# await_progress -- of each client: what it has done until now is no matter
await_progress()
{
	local i now pid

	for ((i = 0; i < clients; i++)); do
		until now=$(grep -c '^back' "${histories[i]}"); [ "$now" -gt $((seen[i] + 2)) ]; do
			for pid in "${targets[@]}"; do
				[ -z "$pid" ] || kill -0 "$pid" 2>/dev/null || die "a target has ended: $(cat "$work"/target.*)"
			done
			kill -0 "${pids[i]}" 2>/dev/null || die "a client has ended: $(cat "$work"/client.*)"
			sleep 0.02
		done
	done
	for ((i = 0; i < clients; i++)); do
		seen[i]=$(grep -c '^back' "${histories[i]}")
	done
}

# stop PID WHO -- by a signal that it takes
stop()
{
	kill "$1"
	wait "$1" || die "$2 has failed: $(cat "$work"/target.* "$work"/client.*)"
}

stop_clients()
{
	local pid

	for pid in "${pids[@]}"; do
		stop "$pid" "a client"
	done
	pids=()
}

# kill_target NUMBER -- so that it can do nothing before it ends
kill_target()
{
	kill -9 "${targets[$1]}"
	wait "${targets[$1]}" 2>/dev/null
	targets[$1]=''
}

# kill_client -- any of them, and start another one in its place
kill_client()
{
	local i=$((RANDOM % clients))

	kill -9 "${pids[i]}"
	wait "${pids[i]}" 2>/dev/null
	start_client "$i"
}
