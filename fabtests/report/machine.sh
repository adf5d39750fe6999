# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# machine.sh -- for report: the machine on which it measures
#
# shellcheck disable=SC2034,SC2154 # report and its other parts set these and use them

rdma_device()
{
	local device

	for device in /sys/class/infiniband/*; do
		[ ! -e "$device" ] || { echo "${device##*/}"; return; }
	done
	return 1
}

# fact NAME VALUE
fact()
{
	printf '%s,%s\n' "$1" "$(tr ',\n' ';; ' <<<"${2:-unknown}" | sed 's/[; ]*$//')" >>"$out/machine.csv"
}

# load -- of the machine, or of the emulator's host: what others do there disturbs what is measured
load()
{
	fact 'load before it began' "$(cut -d ' ' -f 1 /proc/loadavg) processes for $(nproc) processors"
}

facts()
{
	local node device

	echo name,value >"$out/machine.csv"
	fact measured "$(date -u '+%Y-%m-%d %H:%M UTC')"
	fact command "report ${arguments[*]-}"
	fact pmemverbs "$(fi_pmem_lat --version | sed 's/.*pmemverbs //')$(git -C "$top" rev-parse --short=10 HEAD 2>/dev/null |
		sed 's/^/ (/; s/$/)/')"
	fact libfabric "$(fi_info --version 2>/dev/null | sed -n 's/^libfabric: //p')"
	fact libibverbs "$(pkg-config --modversion libibverbs 2>/dev/null || echo unknown)"
	fact librpma "$(pkg-config --modversion librpma 2>/dev/null || echo none)"
	fact kernel "$(uname -sr)"
	fact processor "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1) ($(nproc) of them)"
	fact machine "$(cat /sys/class/dmi/id/{sys_vendor,product_name} 2>/dev/null | tr '\n' ' ')"
	fact 'RDMA device' "$(device=$(rdma_device) && echo "$device ($(cat "/sys/class/infiniband/$device/node_desc" 2>/dev/null))" || echo none)"
	flushes=$(env ${programs:+FI_PROVIDER_PATH="$programs/.libs"} fi_pmem_info 2>/dev/null | sed -n 's/^.*RDMA FLUSH: on //p')
	fact 'RDMA FLUSH' "${flushes:-none}"
	node=$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' 2>/dev/null | wc -l)
	fact 'NUMA nodes' "$node"
	fact "target's memory" "${memory:-volatile memory that is declared to be persistent}"
	for node in /sys/bus/nd/devices/region*/persistence_domain; do
		[ ! -e "$node" ] || fact 'persistence domain' "$(cat "$node")"
	done
	fact target "${target:-the same machine}"
	[ -n "${LAB_ADDR-}" ] || load
	[ -z "$icount" ] || fact clock 'counts instructions; 1000 are a microsecond'
	fact emulated "$([ -z "${LAB_ADDR-}" ] && echo no || echo yes)"
}

# verbs_address -- of the first RDMA device of this machine
verbs_address()
{
	local device netdev

	device=$(rdma_device) || return
	for netdev in "/sys/class/infiniband/$device/ports/1/gid_attrs/ndevs"/*; do
		netdev=$(cat "$netdev" 2>/dev/null) || continue
		ip -o -4 addr show dev "$netdev" | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1
		return
	done
}

# a_file -- on a disk, whose pages the agent syncs; or why there is none
a_file()
{
	local kind

	file='' file_reason='the target is another machine: name a file with --memory'
	[ -z "$target" ] || return
	kind=$(findmnt -n -o FSTYPE -T "$out")
	case $kind in
	ext[234] | xfs | btrfs | f2fs | zfs) file=$out/target.pmem ;;
	*) file_reason="a plain file needs a disk; the folder of the results is on $kind" ;;
	esac
}
