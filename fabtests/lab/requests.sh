# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# requests.sh -- for lab: what guests ask for, and how they end
#
# shellcheck disable=SC2034,SC2154 # lab and its other parts set these and use them

declare -A posted=()       # the names given to lab-ctl post
events=''                  # the file descriptor of the FIFO of events
waiting=''                 # main's request "ready", until the peer's command has started
peer_started=''

# answer GUEST ID ANSWER...
answer() {
	echo "$2 ${*:3}" >&"${reply[$1]}"
}

# let_run GUEST ID -- answer its "ready"
let_run() {
	running[$1]=yes
	answer "$1" "$2" ok
}

# set_link up|down -- at both ends, as with a cable between them. That the devices lose
# their carrier matters: without, Soft-RoCE would not tell anybody (README.md).
set_link() {
	local guest up=true ok=0
	[ "$1" = up ] || up=false
	for guest in "${!pid[@]}"; do
		qmp "$guest" "\"set_link\", \"arguments\": {\"name\": \"net\", \"up\": $up}" || ok=1
	done
	return $ok
}

# qmp GUEST COMMAND -- a request to its qemu, and whether it was granted
qmp() {
	local in out line=''
	exec {in}<>"$run/$1.qmp.in" {out}<>"$run/$1.qmp.out"
	# Only the first of these is granted, and only one is needed.
	echo '{"execute": "qmp_capabilities"}' >&"$in"
	echo "{\"execute\": $2, \"id\": \"lab\"}" >&"$in"
	while [[ $line != *'"id": "lab"'* ]] && read -r -t 10 -u "$out" line; do :; done
	exec {in}>&- {out}>&-
	[[ $line == *'"return"'*'"id": "lab"'* || $line == *'"id": "lab"'*'"return"'* ]]
}

# end_guest GUEST -- end its qemu and wait for that; returns its status. There is nothing to
# shut down properly: guest-init has unmounted what outlives the guest.
end_guest() {
	local status
	[ -n "${pid[$1]-}" ] || return 0
	kill -KILL "${pid[$1]}" 2>/dev/null
	wait "${pid[$1]}" 2>/dev/null
	status=$?
	unset "pid[$1]"
	return $status
}

# lost GUEST -- its qemu has ended by itself
lost() {
	local status
	end_guest "$1"
	status=$?
	if [ -n "${ended[main]-}" ]; then
		# Nobody cares any more.
		return
	elif [ $status -gt 128 ]; then
		say "the $1 guest's qemu was killed ($(kill -l $status))"
		[ "$1" = peer ] && [ -n "${running[peer]-}" ] || exit $status
		set_link down
	elif crashed_booting "$1"; then
		say "the $1 guest crashed while booting, as it may in emulation; once more ..."
		rm -f "$run/$1".{nvdimm,console}
		start "$1"
	else
		keep=yes
		say "the $1 guest failed; its console ends with:"
		cat "$run/$1.qemu" >&2
		tail -n 40 "$run/$1.console" >&2
		die "the whole console: $run/$1.console"
	fi
}

# crashed_booting GUEST -- whether it was the fault of qemu before 8.1, which can miss a
# change that one emulated CPU makes to code while another one is translating it. The
# kernel changes its own code while it boots; about one boot in a hundred hits that.
crashed_booting() {
	[ -z "${running[$1]-}" ] && grep -qa 'Oops: int3' "$run/$1.console"
}

# drain GUEST BYTES -- wait until qemu has written all of the command's output
drain() {
	local i
	[ "$2" != unknown ] || { sleep 0.5; return; }
	for ((i = 0; i < 100; i++)); do
		[ "$(stat -c %s "$run/$1.out")" -lt "$2" ] || return
		sleep 0.05
	done
}

# on_ready GUEST ID -- its command may run; main's waits for the peer's
on_ready() {
	if [ "$1" = main ] && [ -n "$peer" ] && [ -z "$peer_started" ]; then
		waiting=$2
	else
		let_run "$1" "$2"
	fi
}

# on_started GUEST ID -- the peer's command
on_started() {
	answer "$1" "$2" ok
	peer_started=yes
	[ -z "$waiting" ] || let_run main "$waiting"
}

# on_exit GUEST STATUS BYTES -- its command, after so much output
on_exit() {
	drain "$1" "$3"
	ended[$1]=$2
	[ "$1" = main ] || [ "$2" = 0 ] || say "the peer's command exited with status $2"
}

# on_link GUEST ID up|down
on_link() {
	if [ -z "$peer" ]; then
		answer "$1" "$2" "there is no link without --peer"
	elif set_link "$3"; then
		answer "$1" "$2" ok
	else
		answer "$1" "$2" "qemu refused"
	fi
}

# on_kill_peer GUEST ID
on_kill_peer() {
	if [ -z "$peer" ]; then
		answer "$1" "$2" "there is no peer without --peer"
	else
		end_guest peer
		set_link down
		answer "$1" "$2" ok
	fi
}

# serve GUEST DEADLINE -- answer all guests until GUEST's command has ended; fails when
# SECONDS reaches DEADLINE first
serve() {
	local guest id request argument rest
	while [ -z "${ended[$1]-}" ]; do
		[ "$SECONDS" -lt "$2" ] || return 1
		read -r -t $(($2 - SECONDS)) -u "$events" guest id request argument rest || continue
		explain "$guest: $request $argument $rest"
		case $request in
		ready) on_ready "$guest" "$id" ;;
		formatted)
			keep_formatted "$guest"
			answer "$guest" "$id" ok
			;;
		started) on_started "$guest" "$id" ;;
		exit) on_exit "$guest" "$argument" "$rest" ;;
		link) on_link "$guest" "$id" "$argument" ;;
		kill-peer) on_kill_peer "$guest" "$id" ;;
		post)
			posted[$argument]=yes
			answer "$guest" "$id" ok
			;;
		posted) answer "$guest" "$id" "$([ -n "${posted[$argument]-}" ] && echo ok || echo no)" ;;
		# One that was ended on purpose has no pid any more.
		gone) [ -z "${pid[$guest]-}" ] || lost "$guest" ;;
		# Nobody reads the output: what SIGPIPE does to a command.
		closed) [ "$guest" != main ] || [ "$argument" != "${pid[main]-}" ] || exit 141 ;;
		esac
	done
}

timed_out() {
	local guest
	keep=yes
	say "timed out after $timeout s"
	for guest in "${!pid[@]}"; do
		say "$guest's console: $run/$guest.console"
	done
	exit 124
}
