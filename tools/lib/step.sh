# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# step.sh -- what all steps of ./runtests have in common
#
# Sourced by a step, and by ./runtests itself.  A step is a program of its own: it runs in the build folder,
# says on its standard output what it does, and its exit status tells how it ended.

# shellcheck disable=SC2034 # what sources this uses it
SKIPPED=77 # the status of a step that has said why it can't be tried
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
# Another one in another root, where this runs, too.
work=${RUNTESTS_WORK:-$top/build-test}
log=$work/log
# Of a row of steps that has a network of its own; what it writes to has this in its name.
row=${RUNTESTS_ROW-}
. "$top/fabtests/common/await.sh"
# All that were asked for.
read -ra chosen <<<"${RUNTESTS_CHOSEN-}"

# amount FEW MANY -- of what is repeated, or tried at random: MANY, which may take hours, where LONG=yes is in the environment
amount()
{
	is_long && echo "$2" || echo "$1"
}

# is_long -- so much, and also what several steps repeat without a difference that has ever mattered
is_long()
{
	[ "${LONG-}" = yes ]
}

# become_without FILE COMMAND... -- the command, for which that file is empty if that can be had
become_without()
{
	local file=$1

	shift
	# shellcheck disable=SC2016 # that shell expands it
	! unshare --mount mount --bind /dev/null "$file" 2>/dev/null || exec unshare --mount sh -c '
		mount --bind /dev/null "$0" && exec "$@"' "$file" "$@"
	exec "$@"
}

# pair SERVER-COMMAND -- CLIENT-COMMAND: both have to succeed
pair()
{
	"$top/fabtests/common/pair" "$@"
}

# expect STATUS WORDS COMMAND... -- it has to end so, and to say that
expect()
{
	local wanted=$1 words=$2 said status

	shift 2
	said=$("$@" 2>&1)
	status=$?
	printf '%s\n' "$said"
	[ $status = "$wanted" ] || {
		echo "it ended with $status instead of $wanted: $*"
		return 1
	}
	printf '%s' "$said" | grep -aqF -- "$words" || {
		echo "it did not say '$words': $*"
		return 1
	}
}

# side_by_side COMMAND... -- all have to succeed; much of a test is waiting.  Each has a port.
side_by_side()
{
	local status=0 i=0 command
	local -a pids=() commands=("$@")

	for command; do
		(
			# A server that nobody came to.
			trap 'jobs -p | xargs -r kill 2>/dev/null' EXIT
			port=$((9228 + i))
			eval "$command"
		) >"$work/beside$row.$i" 2>&1 &
		pids+=($!)
		i=$((i + 1))
	done
	for i in "${!pids[@]}"; do
		wait "${pids[i]}" || {
			status=1
			echo "this has failed: ${commands[i]}"
		}
		cat "$work/beside$row.$i"
	done
	return $status
}

# use_build BUILD -- its provider, and its programs, which start with less ado (fabtests/common/start.c)
use_build()
{
	export FI_PROVIDER_PATH=$work/$1/.libs LD_PRELOAD=$work/plain/.libs/libstart.so
	bin=$work/$1
}

# disk_file -- the name of a file for the targets' memory: one on a file system in
# memory says nothing of msync
disk_file()
{
	local dir

	for dir in "$work" /var/tmp; do
		case $(stat -f -c %T "$dir") in
		tmpfs | ramfs) ;;
		*) echo "$dir/memory$row" && return ;;
		esac
	done
	echo "neither $work nor /var/tmp is on a disk" >&2
	echo "$work/memory$row"
}

# other_host -- this machine by its address of IPv6, if it has one
other_host()
{
	if grep -qs ' lo$' /proc/net/if_inet6; then
		echo ::1
	else
		echo "no IPv6 here: 127.0.0.1 instead" >&2
		echo 127.0.0.1
	fi
}

# wants_fio -- is its engine among what is to be tested?
wants_fio()
{
	[[ " ${chosen[*]} " =~ \ (fio_tcp|lab_rdm|lab_plug)\  ]]
}

# has_fio -- was its engine built?  If not, that has been said.
has_fio()
{
	[ -e "$bin/.libs/libfabric-pmem.so" ] && return
	echo "skip fio: its sources could not be had: see build-test/log/build"
	return 1
}

# tree_version -- the only place of the number is configure.ac, but for debian/changelog
tree_version()
{
	sed -n 's/^AC_INIT(\[pmemverbs\], \[\(.*\)\])$/\1/p' "$top/configure.ac"
}
