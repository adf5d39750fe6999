# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# keys.sh -- in a guest of the lab: who may connect over RDMA, by tickets (FI_PMEMVERBS_KEYS)
#
# Sourced behind common.sh.  FI_PMEMVERBS_CORE says over which core.

keys=/run/keys

# make_keys -- everybody on this machine is the same one, who knows himself; and a stranger knows him
make_keys()
{
	local end

	rm -rf $keys && mkdir $keys || return
	for end in self stranger; do
		./fi_pmem_key -n $end $keys/$end >$keys/$end.line || return
		cat $keys/self.line >$keys/$end/peers
	done
}

# lat_as END [OPTION]... -- the client's end
lat_as()
{
	FI_PMEMVERBS_KEYS=$keys/$1 ./fi_pmem_lat -d rxe0 -P 9233 -S 64 -I 10 "${@:2}" "$LAB_ADDR"
}

# turned_away WORDS COMMAND... -- the target says that; at most once a second it says anything
turned_away()
{
	: >$keys/log
	until grep -qF "$1" $keys/log; do
		kill -0 "$target" && ! "${@:2}" || return
	done
}

# ids -- how many of librdmacm's the target has
ids()
{
	rdma resource show cm_id | grep -c "pid $target "
}

# forgets COUNT -- the target has no more of them in the end: of whom it has turned away it has none
forgets()
{
	local try

	for ((try = 0; try < 100; try++)); do
		[ "$(ids)" != "$1" ] || return 0
		sleep 0.1
	done
	echo "the target has $(ids) ids instead of $1"
	return 1
}

# strangers -- who is not known gets no ticket, and who has none is not connected; others are
strangers()
{
	local target before

	FI_LOG_LEVEL=warn FI_PMEMVERBS_KEYS=$keys/self ./fi_pmem_lat -d rxe0 -M "$LAB_PMEM" -B 9233 >$keys/log 2>&1 &
	target=$!
	await_ready $keys/log $target || return
	before=$(ids)
	[ "$before" -gt 0 ] && turned_away "is not in the file peers" lat_as stranger &&
		turned_away "it shows no ticket" ./fi_pmem_lat -d rxe0 -P 9233 "$LAB_ADDR" &&
		forgets "$before" && lat_as self && wait $target && return
	cat $keys/log
	kill -KILL $target 2>/dev/null
	return 1
}

# port_taken -- the TCP port of that number is needed, too
port_taken()
{
	local pid status

	perl -MIO::Socket::INET -e '
		my $at = IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => 9233, Listen => 1, ReuseAddr => 1) or die;
		print "waiting on port\n"; STDOUT->flush(); sleep' "$LAB_ADDR" >$keys/taken 2>&1 &
	pid=$!
	await_ready $keys/taken $pid || return
	! FI_LOG_LEVEL=warn FI_PMEMVERBS_KEYS=$keys/self ./fi_pmem_lat -d rxe0 -s "$LAB_ADDR" -M "$LAB_PMEM" -B 9233 >$keys/log 2>&1 &&
		grep -F "no tickets can be given out at $LAB_ADDR:9233 (Address already in use)" $keys/log
	status=$?
	[ $status = 0 ] || cat $keys/log
	kill $pid
	wait $pid
	return $status
}

# tickets CASES [RDM-CASES] -- connections that are made, and those that are not
tickets()
{
	make_keys || return
	FI_PMEMVERBS_KEYS=$keys/self functional fi_pmem_functional "$1" || return
	[ -z "${2-}" ] || FI_PMEMVERBS_KEYS=$keys/self functional fi_pmem_rdm_functional "$2" || return
	strangers && port_taken && echo "ok tickets over $FI_PMEMVERBS_CORE"
}
