# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# soak.sh -- targets, and clients that make random operations, both of which are killed and started again
#
# Who sources this sets name, program and kills, records, clients and hosts, and the names of all cases in
# cases.  It has functions usage, start_targets, stop_targets (which finds that no buffer is lost),
# start_client NUMBER, judge HISTORY..., and case_CASE for each case.  A client prints a line "back" for each
# operation that has ended.
#
# ../power/plug has two cases more: "soaking" on a machine that loses power, then "left" on another one
# that has the memory and the histories.

# shellcheck disable=SC2154,SC2034 # what sources this sets them, or uses them
. "$(dirname "${BASH_SOURCE[0]}")/../common/await.sh"

targets=() lives=0 processes=0
pids=() histories=() seen=()
memory='' port=9228 seed=$RANDOM before=() behind=() hosts=() protocol='' patience=()

wrong()
{
	echo "$name: $*; $name --help tells how to use it" >&2
	exit 2
}

die()
{
	echo "$name: $*" >&2
	exit 1
}

# take_arguments ARGUMENT... -- also sets programs and work, the folders
take_arguments()
{
	local all=$cases

	while :; do
		case ${1-} in
		--kills | --port | --seed)
			[[ ${2-} =~ ^[1-9][0-9]{0,6}$ ]] || wrong "$1 needs a number"
			printf -v "${1#--}" %s "$2"
			shift 2
			;;
		--memory | --cases)
			[ -n "${2-}" ] || wrong "$1 needs a value"
			printf -v "${1#--}" %s "$2"
			shift 2
			;;
		--help | -h) usage; exit 0 ;;
		--version) exec "$(dirname "${BASH_SOURCE[0]}")/../../tools/version" "$name" ;;
		-*) wrong "unknown option $1" ;;
		*) break ;;
		esac
	done
	[ $# = 2 ] || wrong "it takes two folders"
	[[ ,$cases, =~ ^,((${all//,/|}|soaking|left),)+$ ]] || wrong "there is no such case in '$cases'"
	programs=$(readlink -f "$1") work=$2
	program=$programs/$program
	[ -x "$program" ] || die "$program is not there"
	mkdir -p "$work" || exit 1
	export FI_PROVIDER_PATH=${FI_PROVIDER_PATH-$programs/.libs} FI_PMEMVERBS_CORE=${FI_PMEMVERBS_CORE-tcp}
	[ -n "$memory" ] || memory=$work/memory
	RANDOM=$seed
}

# run_cases PREFIX -- of the cases' names; exits
run_cases()
{
	local case path=${memory#direct:} status=0

	trap clean_up EXIT
	trap 'exit 130' INT TERM HUP
	for case in ${cases//,/ }; do
		rm -f "$work"/client.* "$work"/target.*
		[ "$case" = left ] || rm -f "$work"/history.* "$path" "$path".[0-9]
		if "case_$case"; then
			echo "ok $1_$case"
		else
			echo "not ok $1_$case"
			status=1
		fi
		clean_up
		targets=() pids=()
	done
	exit "$status"
}

# client STATUS WORDS ARGUMENT... -- it has to end so, and to say that.  It also gets what is in before and behind.
client()
{
	local wanted=$1 words=$2 said ended

	shift 2
	said=$("$program" "${before[@]}" "$@" "${behind[@]}" 2>&1)
	ended=$?
	[ "$ended" = "$wanted" ] && [[ $said = *"$words"* ]] && return
	echo "it ended with $ended instead of $wanted, and said '$said' instead of '$words': $*"
	return 1
}

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
	"$program" --seed $((seed * 1000 + processes)) "${patience[@]}" "$@" >"${histories[number]}" 2>"$work/client.$processes" &
	pids[number]=$!
}

start_clients()
{
	local i

	for ((i = 0; i < clients; i++)); do
		start_client "$i"
	done
}

# look -- read all that is stored
look()
{
	processes=$((processes + 1))
	"$program" "${before[@]}" --seed $((seed * 1000 + processes)) -o "look$protocol" "${hosts[@]}" >"$work/history.$processes" ||
		die "what is stored can't be read"
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

# judge_left -- what there is now, also by targets that have started again
judge_left()
{
	look
	stop_targets || return
	start_targets
	look
	stop_targets || return
	judge "$work"/history.*
}

# case_soaking -- until the power fails; says when each client has done something
# shellcheck disable=SC2317 # run_cases calls it
case_soaking()
{
	local i

	# An emulated machine may get little of the processors.
	clients=2 patience=(--timeout 600)
	start_targets
	start_clients
	for ((i = 0; i < clients; i++)); do
		await_words back "${histories[i]}" "${pids[i]}" || die "a client has ended: $(cat "$work"/client.*)"
	done
	echo ack
	wait -n
	die "a process has ended: $(cat "$work"/target.* "$work"/client.*)"
}

# case_left -- by the power failure
# shellcheck disable=SC2317 # run_cases calls it
case_left()
{
	processes=1000 # behind those that have written histories there
	start_targets
	judge_left
}
