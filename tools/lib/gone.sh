# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# gone.sh -- two machines, of which one goes: network namespaces joined by a cable that is cut
#
# shellcheck disable=SC2154 # step.sh has been sourced before

gone_timeout=2 # in seconds
here=192.0.2.1
there=192.0.2.2

# in_namespace STEP -- become the step in a network namespace of its own, or skip it
in_namespace()
{
	[ -z "${GONE_INSIDE-}" ] || return 0
	unshare --net ip link add here type veth peer name there 2>/dev/null || {
		echo "skip gone: no network namespaces and veth devices can be made here"
		exit "$SKIPPED"
	}
	GONE_INSIDE=1 exec unshare --net "$1"
}

# lay_cable -- to another namespace; what begins with "${far[@]}" runs there
lay_cable()
{
	# What an earlier one has said must not be taken for this one's.
	: >"$work/gone$row.far"
	unshare --net sh -c 'echo inside; exec sleep infinity' >"$work/gone$row.far" &
	far_pid=$!
	await_words inside "$work/gone$row.far" "$far_pid" || return
	ip link add here type veth peer name there netns "$far_pid" &&
		ip address add "$here/24" dev here &&
		ip link set here up &&
		far=(nsenter --net="/proc/$far_pid/ns/net") &&
		"${far[@]}" sh -c "ip address add $there/24 dev there && ip link set there up" &&
		await_link here &&
		await_link there "${far[@]}"
}

# await_link NAME COMMAND... -- until it can be used, as seen by that command; before that its address is no local one
await_link()
{
	local name=$1

	shift
	until "$@" ip -brief link show "$name" | grep -q ' UP '; do
		kill -0 "$far_pid" || return
		sleep 0.05
	done
}

cut_cable()
{
	"${far[@]}" ip link set there down
}

# functional_gone PROGRAM CASES -- whose machines go: in the other namespace there is nobody any more
# but on the port of the control connections
functional_gone()
{
	local status=0

	lay_cable || return
	export PMEM_GONE_CUT="${far[*]} ip rule add pref 10 ipproto tcp sport 9228 lookup main &&
		${far[*]} ip rule add pref 20 blackhole &&
		${far[*]} ss --kill --tcp state established sport != :9228"
	export PMEM_GONE_MEND="${far[*]} ip rule del pref 20 && ${far[*]} ip rule del pref 10"
	pair "${far[@]}" "$bin/$1" "${patience[@]}" -s "$there" -- \
		"$bin/$1" "${patience[@]}" -o "$2" "$there" || status=1
	remove_cable
	return $status
}

# know_neighbour -- for ever: whoever asks for its address is told soon that nobody is there
know_neighbour()
{
	local mac

	mac=$("${far[@]}" ip -brief link show there | awk '{ print $3 }') &&
		ip neighbour replace "$there" lladdr "$mac" nud permanent dev here
}

mend_cable()
{
	"${far[@]}" ip link set there up && await_link here && await_link there "${far[@]}"
}

remove_cable()
{
	ip link delete here
	kill "$far_pid"
	wait "$far_pid" 2>/dev/null
}

# await_packets PID -- until many have come from there, so that both sides are at work
await_packets()
{
	local from

	from=$(packets)
	until [ $(($(packets) - from)) -gt 200 ]; do
		kill -0 "$1" 2>/dev/null || return
		sleep 0.05
	done
}

packets()
{
	awk '$1 == "here:" { print $3 }' /proc/net/dev
}

# given_up PID LOG -- it ends by itself with an error, and has said why
given_up()
{
	if wait "$1"; then
		echo "no error is told: $2"
		return 1
	fi
	grep -qa "has not answered for $gone_timeout s" "$2" || { cat "$2"; return 1; }
}
