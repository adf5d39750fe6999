# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# common.sh -- what scripts have in common that run in the lab's guests
#
# Sourced in the build folder.  Each command says if it fails, and the guest's status tells it.

# The tree is where it is on the host.
fabtests=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=fabtests/common/await.sh
. "$fabtests/common/await.sh"
failed=0
# No packet gets lost in a guest, and Soft-RoCE never ends an atomic that it sends again.  And programs start with less ado.
export LD_PRELOAD="$PWD/.libs/libretransmit.so $PWD/.libs/libstart.so" PMEM_RETRANSMIT=never

# must COMMAND... -- it has to succeed; if not, the others are tried all the same
must()
{
	"$@" && return
	echo "not ok failed in the guest: $*"
	failed=1
}

# A case has so many seconds: a busy machine is no failure.
patience=(--timeout 300)

# is_long -- LONG=yes was in runtests' environment
is_long()
{
	[ "${LAB_LONG-}" = yes ]
}

# functional PROGRAM CASES [OPTION] -- CASES "" are all; the option is for both ends
functional()
{
	local few=()

	# In "mix" an operation takes a millisecond.
	is_long || [ "$1" != fi_pmem_functional ] || few=(-I 1000)
	"$fabtests"/common/pair "./$1" "${patience[@]}" -d rxe0 ${3:+"$3"} -M "$LAB_PMEM" -- \
		"./$1" "${patience[@]}" "${few[@]}" -d rxe0 ${3:+"$3"} ${2:+-o "$2"} "$LAB_ADDR"
}

# crossed TARGET INITIATOR CASES -- of fi_pmem_functional, the ends of which have different cores
crossed()
{
	"$fabtests"/common/pair env "FI_PMEMVERBS_CORE=$1" ./fi_pmem_functional "${patience[@]}" -d rxe0 -M "$LAB_PMEM" -- \
		env "FI_PMEMVERBS_CORE=$2" ./fi_pmem_functional "${patience[@]}" -d rxe0 -o "$3" "$LAB_ADDR"
}

mpi()
{
	FI_PMEMVERBS_CORE=verbs FI_PMEMVERBS_COMMIT=all "$fabtests"/clients/mpi/run ./pmem_mpi -M /dev/dax0.0 -a -s
}

# copy -- a file to the device and back, not at its start, and by the same names it is compared
copy()
{
	head -c 3000001 /dev/urandom >/run/file || return
	"$fabtests"/common/pair ./fi_pmem_target "$LAB_PMEM" -- sh -c '
		cp=./fi_pmem_cp
		$cp -v /run/file "$LAB_ADDR:1M" && $cp "$LAB_ADDR:1M+3000001" /run/back && cmp /run/file /run/back &&
			$cp --verify /run/file "$LAB_ADDR:1M" && $cp --verify "$LAB_ADDR:1M+3000001" /run/file &&
			! $cp --verify /run/file "$LAB_ADDR:1"
		status=$?
		kill $(pidof fi_pmem_target)
		exit $status' >/run/copy 2>&1
	set -- $?
	cat /run/copy
	grep "core provider: verbs" /run/copy && return "$1"
}

# calls -- durable ones, short and long, before all else; no connection may get lost meanwhile
calls()
{
	# What is in the build folder itself are libtool's scripts, which take long to start.
	local server failed="" rpc=(env "LD_LIBRARY_PATH=$PWD/.libs" .libs/fi_pmem_rpc)

	"${rpc[@]}" -M "$LAB_PMEM" --clients 8 >/run/calls.server 2>&1 &
	server=$!
	await_ready /run/calls.server $server || return
	"${rpc[@]}" -n 100 "$LAB_ADDR" >/run/calls && "${rpc[@]}" -n 20 -S 20000 "$LAB_ADDR" >>/run/calls ||
		failed=yes
	cat /run/calls.server /run/calls
	[ "$(grep -c "each executed once; 0 times connected again" /run/calls)" = 2 ] || failed=yes
	kill $server && wait $server && [ -z "$failed" ]
}

rdm()
{
	FI_PMEMVERBS_COMMIT=$1 functional fi_pmem_rdm_functional "$2"
}

# What it says of this machine, and a target at work that is asked over verbs.
info()
{
	local pids ask=(./fi_pmem_info --connect "$LAB_ADDR:9229")

	./fi_pmem_info >/run/info && cat /run/info &&
		grep -q "verbs rxe0: software RDMA" /run/info && grep -q "$1: " /run/info || return
	FI_PMEMVERBS_ANSWER=on ./fi_pmem_lat -d rxe0 -M "$LAB_PMEM" -B 9229 >/run/info.server 2>&1 &
	pids=($!)
	await_ready /run/info.server "${pids[0]}" || return
	./fi_pmem_lat -d rxe0 -o commit -I 100000000 -P 9229 "$LAB_ADDR" >/run/info.client 2>&1 &
	pids+=($!)
	until "${ask[@]}" >/run/info && grep -E "requests_served +[1-9]" /run/info; do
		kill -0 "${pids[@]}" || return
	done
	cat /run/info
	grep -q "over verbs" /run/info || return
	kill "${pids[1]}"
	! wait "${pids[@]}"
}

# stress SEED [OPTION]... -- random operations; no atomics where some messages find no receive
stress()
{
	FI_PMEMVERBS_CORE=verbs ./fi_pmem_stress -M "$LAB_PMEM" -s "$LAB_ADDR" -I "$LAB_OPERATIONS" --seed "$@"
}

# by_fio [OPTION]... -- writes of fio, each durable when it completes or by a sync, which it verifies
by_fio()
{
	local options=(--ioengine="external:$PWD/.libs/libfabric-pmem.so" --size=1M --domain=rxe0)

	FI_PMEMVERBS_CORE=verbs "$fabtests"/common/pair fio --name=target "${options[@]}" --filename="$LAB_PMEM" -- \
		fio --name=client "${options[@]}" --servername="$LAB_ADDR" --rw=randwrite --bs=4k --iodepth=8 \
		--verify=crc32c "$@" >/run/fio 2>&1
	set -- $?
	cat /run/fio
	[ "$1" = 0 ] && grep -qE "issued rwts: total=([1-9][0-9]{2}),\1," /run/fio && echo "ok by_fio"
}

# few_locked -- less may be locked than is registered, by who has no right to lock more
few_locked()
{
	(ulimit -l 64 && FI_LOG_LEVEL=warn "$fabtests"/common/pair \
		setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock ./fi_pmem_lat -d rxe0 -M "$LAB_PMEM" -B 9231 -- \
		./fi_pmem_lat -d rxe0 -P 9231 "$LAB_ADDR") >/run/locked 2>&1
	set -- $?
	cat /run/locked
	[ "$1" = 1 ] && grep -q "RLIMIT_MEMLOCK is 64 KiB" /run/locked
}

pingpong()
{
	FI_PROVIDER=pmemverbs "$fabtests"/common/pair --port 9226 fi_pingpong -B 9226 "$@" -d rxe0 -c -- \
		fi_pingpong -P 9226 "$@" -d rxe0 -c "$LAB_ADDR"
}

# over_ipv6 PROGRAM CASES -- by an address of IPv6, which the lab has not
over_ipv6()
{
	local dev status
	dev=$(cat /sys/class/infiniband/rxe0/parent)
	echo 0 >/proc/sys/net/ipv6/conf/"$dev"/disable_ipv6
	ip -6 address add fd00::1/64 dev "$dev" nodad || return
	until grep -q ^fd00: /sys/class/infiniband/rxe0/ports/1/gids/*; do
		sleep 0.1
	done
	FI_PMEMVERBS_CORE=verbs "$fabtests"/common/pair "./$1" -s fd00::1 -M "$LAB_PMEM" -- "./$1" -o "$2" fd00::1
	status=$?
	echo 1 >/proc/sys/net/ipv6/conf/"$dev"/disable_ipv6
	return "$status"
}
