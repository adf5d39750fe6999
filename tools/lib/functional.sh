# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# functional.sh -- the functional programs over tcp
#
# shellcheck disable=SC2034,SC2154 # step.sh has been sourced before, and steps use what is set here

# Cases with targets of their own: what the others' memory is, and who serves them, is no matter.
served='^(agent_|hostile_|stranger_|crowd_|declared_|undeclared_|idle_|many_scattered|many_overlapping|fenced_pairs)'

# Cases about calls and queues, of which it is no matter who makes data durable.
calls='^(getinfo|format_|selective|unselective|several_iovs|wait_|cq_signal|counter|separate_queues|shared_|cancel|'
calls+='private_data|rejected|many_connections|wrong_key|plain_key|unknown_attributes|key_of_|deregistered|not_writable|unreadable)'

# Cases of what is posted for a commit, and in which order.
posted=sizes,several_iovs,zero_bytes,zero_iovs,inject,plain_then_commit,two_regions,delivered,notice_fenced,notice_values,notice_injected,op_flags_commit
posted+=,messages_beside,fence_write,fence_commit,fence_defers_later,fence_pair_watched,fence_pair_unordered,fence_other_region,appends_together,full_queue
posted+=,full_queue_notices,atomic_write,mix,mix_selective,beyond_end_fenced,flush_failure,flush_failure_fenced,killed_target,own_shutdown,many_scattered
posted+=,fenced_pairs,message_commit,message_fence_after_writes,message_kind_commit,message_kind_fence,event_write

# Cases about what was read from the network, and what was declared, whichever core brought it.
read_alike='^(hostile_(noise|nonsense|ranges|replays|hellos|messages)|declared_)'

# A case has so many seconds: a busy machine is no failure.
patience=(--timeout 300)

# cases_but REGEX -- the other cases, as an option's value
cases_but()
{
	"$work/plain/fi_pmem_functional" -o list | grep -vE "$1" | paste -sd ,
}

# cases_of REGEX -- these cases
cases_of()
{
	"$work/plain/fi_pmem_functional" -o list | grep -E "$1" | paste -sd ,
}

# functional BUILD DOMAIN CASES TARGET-OPTION... -- the functional program over tcp; CASES "" are all
functional()
{
	local build=$1 domain=$2 cases=$3

	shift 3
	use_build "$build"
	FI_PMEMVERBS_CORE=tcp FI_PMEMVERBS_DOMAIN=$domain pair \
		"$bin/fi_pmem_functional" "${patience[@]}" -B "${port:-9228}" ${host:+-s "$host"} "$@" -- \
		"$bin/fi_pmem_functional" "${patience[@]}" -P "${port:-9228}" ${cases:+-o "$cases"} "${host:-127.0.0.1}"
}

# functional_with DOMAIN TARGET-OPTION... -- the functional program for FI_EP_RDM
functional_with()
{
	local domain=$1

	shift
	FI_PMEMVERBS_CORE=tcp FI_PMEMVERBS_DOMAIN=$domain pair \
		"$bin/fi_pmem_rdm_functional" "${patience[@]}" -B "${port:-9228}" ${host:+-s "$host"} "$@" -- \
		"$bin/fi_pmem_rdm_functional" "${patience[@]}" -P "${port:-9228}" "${host:-127.0.0.1}"
}

# direct COMMAND... -- with the option for memory with a file behind it, which only some file systems can have
direct()
{
	local file
	file=$(disk_file).direct

	case $(stat -f -c %T "${file%/*}") in
	ext2/ext3 | xfs) "$@" -M "direct:$file" ;;
	*) echo "skip direct $*: $file is neither on ext4 nor on XFS" ;;
	esac
}
